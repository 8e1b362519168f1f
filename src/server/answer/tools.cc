#include "server/answer/tools.h"

#include <algorithm>

namespace kvick::server {
namespace {

using base::Done;

// Other fields of a tool are passed to the chat template unchecked.
ApiResult<std::string> tool_name(const Fields& request, const Json& tool, const std::string& path) {
  KVICK_TRY(Fields outer, request.inside(tool, path));
  KVICK_TRY(const std::string type, outer.get_string("type", ""));
  if (type != "function") return bad_field(path + ".type", "{}.type must be \"function\"", path);
  const Json* function = outer.find("function");
  if (function == nullptr) return bad_field(path, "{}.function is missing", path);
  KVICK_TRY(Fields inner, request.inside(*function, path + ".function"));
  KVICK_TRY(std::string name, inner.get_string("name", ""));
  if (name.empty()) return bad_field(inner.path("name"), "{} is missing", inner.path("name"));
  const Json* parameters = inner.find("parameters");
  if (parameters != nullptr && !parameters->is_object())
    return bad_field(inner.path("parameters"), "{} must be a JSON schema",
                     inner.path("parameters"));
  return name;
}

ApiStatus read_list(const Fields& request, const Json& list, Tools& tools) {
  if (!list.is_array() || list.empty() || list.size() > kMostTools)
    return bad_field("tools", "tools must be a list of 1 to {} tools", kMostTools);
  for (const Json& tool : list) {
    KVICK_TRY(std::string name,
              tool_name(request, tool, fmt::format("tools[{}]", tools.names.size())));
    tools.names.push_back(std::move(name));
  }
  tools.list = list;
  tools.choice = Tools::Choice::kAuto;
  return Done{};
}

bool is_offered(const Tools& tools, const std::string& name) {
  return std::find(tools.names.begin(), tools.names.end(), name) != tools.names.end();
}

ApiStatus choose_named(const Fields& request, const Json& value, Tools& tools) {
  const Json* function =
      value.is_object() && value.contains("function") ? &value["function"] : nullptr;
  if (function == nullptr || !function->is_object() || !function->contains("name") ||
      !(*function)["name"].is_string())
    return bad_field("tool_choice",
                     "tool_choice must be \"none\", \"auto\", \"required\" or {{\"type\": "
                     "\"function\", \"function\": {{\"name\": ...}}}}");
  KVICK_TRY(Fields outer, request.inside(value, "tool_choice"));
  KVICK_TRY(Fields inner, request.inside(*function, "tool_choice.function"));
  outer.ignore({"type", "function"});
  inner.ignore({"name"});
  KVICK_TRY_VOID(outer.check_rest());
  KVICK_TRY_VOID(inner.check_rest());
  const auto name = (*function)["name"].get<std::string>();
  if (!is_offered(tools, name))
    return bad_field("tool_choice", "tool_choice names {}, which is not among the tools",
                     in_quotes(name));
  tools.names = {name};
  tools.choice = Tools::Choice::kRequired;
  return Done{};
}

// Reads the choice of some of the tools. The template still gets all of them, as OpenAI intends it:
// the prompt's beginning stays the same, and so does its place in the cache.
ApiStatus choose_allowed(const Fields& request, const Json& value, Tools& tools) {
  KVICK_TRY(Fields outer, request.inside(value, "tool_choice"));
  outer.ignore({"type"});
  const Json* given = outer.find("allowed_tools");
  if (given == nullptr)
    return bad_field("tool_choice.allowed_tools", "tool_choice.allowed_tools is missing");
  KVICK_TRY(Fields allowed, outer.inside(*given, "tool_choice.allowed_tools"));
  KVICK_TRY(const std::string mode, allowed.get_string("mode", "auto"));
  if (mode != "auto" && mode != "required")
    return bad_field(allowed.path("mode"), "{} is {}; it must be \"auto\" or \"required\"",
                     allowed.path("mode"), in_quotes(mode));
  const std::string path = allowed.path("tools");
  const Json* list = allowed.find("tools");
  if (list == nullptr || !list->is_array() || list->empty() || list->size() > kMostTools)
    return bad_field(path, "{} must be a list of 1 to {} tools", path, kMostTools);
  std::vector<std::string> names;
  for (const Json& tool : *list) {
    const std::string place = fmt::format("{}[{}]", path, names.size());
    KVICK_TRY(std::string name, tool_name(request, tool, place));
    if (!is_offered(tools, name))
      return bad_field(place, "{} names {}, which is not among the tools", place, in_quotes(name));
    names.push_back(std::move(name));
  }
  KVICK_TRY_VOID(allowed.check_rest());
  KVICK_TRY_VOID(outer.check_rest());
  tools.names = std::move(names);
  if (mode == "required") tools.choice = Tools::Choice::kRequired;
  return Done{};
}

ApiStatus read_choice(const Fields& request, const Json& value, Tools& tools) {
  if (value == "none") {
    tools = {};  // dropped, because a model that sees tools may call them
    return Done{};
  }
  if (!tools.offered()) return bad_field("tool_choice", "tool_choice needs tools to choose from");
  if (value == "auto") return Done{};
  if (value.is_object() && value.contains("type") && value["type"] == "allowed_tools")
    return choose_allowed(request, value, tools);
  if (value != "required") return choose_named(request, value, tools);
  tools.choice = Tools::Choice::kRequired;
  return Done{};
}

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

// Prepares a schema for use inside another one, at the JSON pointer `place`: its references to its
// own root ("#", "#/...") are changed to lead there.
void move_to(const std::string& place, Json& schema) {
  if (schema.is_array())
    for (Json& one : schema) move_to(place, one);
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (is_one_of(key, {"enum", "const", "default", "examples"})) continue;  // values, not schemas
    if (key == "$ref" && value.is_string()) {
      const auto to = value.get<std::string>();
      if (to == "#" || to.starts_with("#/")) value = "#" + place + to.substr(1);
    } else if (value.is_object() && is_one_of(key, {"properties", "$defs", "definitions"})) {
      for (Json& one : value) move_to(place, one);
    } else {
      move_to(place, value);
    }
  }
}

// Returns the schema of a call. place: JSON pointer of this schema in the whole schema.
Json call_schema(const Json& function, const std::string& place) {
  Json arguments = Json::object();
  if (function.contains("parameters") && function["parameters"].is_object())
    arguments = function["parameters"];
  move_to(place + "/properties/arguments", arguments);
  // Arguments must be an object, even if the tool's schema does not say so.
  const auto says = [&](const char* key) { return arguments.contains(key); };
  if (!says("type") && !says("$ref") && !says("anyOf") && !says("oneOf") && !says("allOf"))
    arguments["type"] = "object";
  return {{"type", "object"},
          {"properties",
           {{"name", {{"enum", Json::array({function["name"]})}}}, {"arguments", arguments}}},
          {"required", Json::array({"name", "arguments"})},
          {"additionalProperties", false}};
}

}  // namespace

ApiResult<Tools> read_tools(Fields& fields) {
  Tools tools;
  const Json* list = fields.find("tools");
  if (list != nullptr && !(list->is_array() && list->empty()))
    KVICK_TRY_VOID(read_list(fields, *list, tools));
  KVICK_TRY(tools.parallel, fields.get_bool("parallel_tool_calls", true));
  if (const Json* choice = fields.find("tool_choice"))
    KVICK_TRY_VOID(read_choice(fields, *choice, tools));
  return tools;
}

Json Tools::or_call(const Json& format) const {
  if (choice != Choice::kAuto || format.is_null() || format["type"] != "json_schema") return format;
  Json schema = format["json_schema"]["schema"];
  move_to("/anyOf/0", schema);
  Json call = {{"type", "object"},
               {"properties", {{"name", {{"enum", names}}}, {"arguments", {{"type", "object"}}}}},
               {"required", Json::array({"name", "arguments"})},
               {"additionalProperties", false}};
  Json either = Json::object();
  either["anyOf"] = Json::array({std::move(schema), std::move(call)});
  Json both = {{"type", "json_schema"}};
  both["json_schema"]["schema"] = std::move(either);
  return both;
}

Json Tools::response_format() const {
  if (choice != Choice::kRequired) return nullptr;
  std::vector<const Json*> functions;
  for (const Json* some : {&list, &deferred})
    for (const Json& tool : *some)
      if (std::find(names.begin(), names.end(), tool["function"]["name"]) != names.end())
        functions.push_back(&tool["function"]);
  Json calls = Json::array();
  for (const Json* function : functions)
    calls.push_back(call_schema(
        *function, functions.size() == 1 ? "" : fmt::format("/anyOf/{}", calls.size())));
  const Json schema = calls.size() == 1 ? calls[0] : Json({{"anyOf", calls}});
  return {{"type", "json_schema"}, {"json_schema", {{"name", "tool_call"}, {"schema", schema}}}};
}

}  // namespace kvick::server
