#include "server/responses/responses_tools.h"

#include <algorithm>

namespace kvick::server {
namespace {

using base::Done;

ApiStatus ignore_tool(const std::string& path, const std::string& type, UnknownFields& unknown) {
  if (unknown.refused())
    return bad_field(path + ".type",
                     "{}.type is {}, but this server offers the model functions only; leave the "
                     "tool out",
                     path, in_quotes(type));
  unknown.add(fmt::format("{}.{}", path, type));
  return Done{};
}

// Returns a function as a chat's tool. Drops its other fields, which templates would write into
// prompts.
ApiResult<Json> read_function(Fields& tool) {
  KVICK_TRY(const std::string name, tool.get_string("name", ""));
  if (name.empty()) return bad_field(tool.path("name"), "{} is missing", tool.path("name"));
  Json function = {{"name", name}};
  KVICK_TRY(const std::string description, tool.get_string("description", ""));
  if (!description.empty()) function["description"] = description;
  const Json* parameters = tool.find("parameters");
  if (parameters != nullptr && !parameters->is_object())
    return bad_field(tool.path("parameters"), "{} must be a JSON schema", tool.path("parameters"));
  if (parameters != nullptr) function["parameters"] = *parameters;
  tool.ignore({"strict"});
  KVICK_TRY_VOID(tool.check_rest());
  return Json({{"type", "function"}, {"function", std::move(function)}});
}

class ListReader {
 public:
  ListReader(UnknownFields& unknown, ResponsesTools& tools) : unknown_(unknown), tools_(tools) {}

  // space: the namespace that contains the list; empty: none.
  ApiStatus read(const Fields& outer, const Json& list, const std::string& path,
                 const std::string& space) {
    if (!list.is_array()) return bad_field(path, "{} must be a list of tools", path);
    size_t index = 0;
    for (const Json& one : list) {
      const std::string place = fmt::format("{}[{}]", path, index++);
      KVICK_TRY(Fields fields, outer.inside(one, place));
      KVICK_TRY(const std::string type, fields.get_string("type", ""));
      if (type.empty()) return bad_field(place + ".type", "{}.type is missing", place);
      KVICK_TRY_VOID(add(fields, type, place, space));
    }
    return Done{};
  }

 private:
  ApiStatus add(Fields& fields, const std::string& type, const std::string& path,
                const std::string& space) {
    if (type == "function") return add_function(fields, space);
    if (type == "namespace" && space.empty()) return read_namespace(fields);
    return ignore_tool(path, type, unknown_);
  }

  ApiStatus add_function(Fields& fields, const std::string& space) {
    KVICK_TRY(Json tool, read_function(fields));
    if (!space.empty()) {
      Json& name = tool["function"]["name"];
      std::string own = name.get<std::string>();
      name = name_in(space, own);
      tools_.namespaces[name.get<std::string>()] = {space, std::move(own)};
    }
    tools_.list.push_back(std::move(tool));
    return Done{};
  }

  // Ignores the description of the namespace, which no template can show.
  ApiStatus read_namespace(Fields& fields) {
    KVICK_TRY(const std::string name, fields.get_string("name", ""));
    if (name.empty()) return bad_field(fields.path("name"), "{} is missing", fields.path("name"));
    const Json* list = fields.find("tools");
    if (list == nullptr)
      return bad_field(fields.path("tools"), "{} is missing", fields.path("tools"));
    fields.ignore({"description"});
    KVICK_TRY_VOID(read(fields, *list, fields.path("tools"), name));
    return fields.check_rest();
  }

  UnknownFields& unknown_;
  ResponsesTools& tools_;
};

bool offers(const ResponsesTools& tools, const std::string& name) {
  return std::any_of(tools.list.begin(), tools.list.end(),
                     [&](const Json& tool) { return tool["function"]["name"] == name; });
}

ApiStatus read_allowed(Fields& choice, ResponsesTools& tools) {
  KVICK_TRY(const std::string mode, choice.get_string("mode", "auto"));
  if (mode != "auto" && mode != "required")
    return bad_field("tool_choice.mode",
                     "tool_choice.mode is {}; it must be \"auto\" or "
                     "\"required\"",
                     in_quotes(mode));
  const Json* list = choice.find("tools");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMostTools)
    return bad_field("tool_choice.tools", "tool_choice.tools must be a list of 1 to {} tools",
                     kMostTools);
  for (const Json& one : *list) {
    const std::string path = fmt::format("tool_choice.tools[{}]", tools.allowed.size());
    KVICK_TRY(Fields fields, choice.inside(one, path));
    KVICK_TRY(std::string name, fields.get_string("name", ""));
    fields.ignore({"type"});
    KVICK_TRY_VOID(fields.check_rest());
    if (!offers(tools, name))
      return bad_field(path, "{} names {}, which is not among the functions that are offered", path,
                       in_quotes(name));
    tools.allowed.push_back(std::move(name));
  }
  tools.choice = mode;
  return Done{};
}

ApiStatus read_choice_object(const Fields& request, const Json& value, ResponsesTools& tools) {
  KVICK_TRY(Fields fields, request.inside(value, "tool_choice"));
  KVICK_TRY(const std::string type, fields.get_string("type", ""));
  if (type == "allowed_tools") {
    KVICK_TRY_VOID(read_allowed(fields, tools));
    return fields.check_rest();
  }
  if (type != "function")
    return bad_field("tool_choice",
                     "tool_choice asks for a tool of type {}, but this server offers the model "
                     "functions only",
                     in_quotes(type));
  KVICK_TRY(const std::string name, fields.get_string("name", ""));
  KVICK_TRY_VOID(fields.check_rest());
  if (!offers(tools, name))
    return bad_field("tool_choice", "tool_choice names {}, which is not among the tools",
                     in_quotes(name));
  tools.choice = {{"type", "function"}, {"function", {{"name", name}}}};
  return Done{};
}

ApiStatus read_choice(const Fields& request, const Json& value, ResponsesTools& tools) {
  if (value.is_object()) return read_choice_object(request, value, tools);
  if (value != "none" && value != "auto" && value != "required")
    return bad_field("tool_choice",
                     "tool_choice must be \"none\", \"auto\", \"required\" or {{\"type\": "
                     "\"function\", \"name\": ...}}");
  // Clients send "auto" with every request, even without tools.
  if (tools.list.empty() && value != "required") return Done{};
  if (tools.list.empty())
    return bad_field("tool_choice", "tool_choice needs functions among the tools to choose from");
  tools.choice = value;
  return Done{};
}

}  // namespace

ApiResult<ResponsesTools> read_responses_tools(Fields& request, UnknownFields& unknown) {
  ResponsesTools tools;
  if (const Json* list = request.find("tools"))
    KVICK_TRY_VOID(ListReader(unknown, tools).read(request, *list, "tools", ""));
  if (const Json* choice = request.find("tool_choice"))
    KVICK_TRY_VOID(read_choice(request, *choice, tools));
  return tools;
}

}  // namespace kvick::server
