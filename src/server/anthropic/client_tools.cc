#include "server/anthropic/client_tools.h"

#include <set>

#include "server/anthropic/blocks.h"

namespace kvick::server {
namespace {

using ToolNames = std::set<std::string>;

// Returns the tool in the form of OpenAI's API and of chat templates.
ApiResult<Json> read_tool(const Fields& request, const Json& given, std::string path,
                          ToolNames& deferred) {
  KVICK_TRY(Fields tool, request.inside(given, std::move(path)));
  KVICK_TRY(const std::string type, tool.get_string("type", "custom"));
  if (type != "custom")
    return bad_field(tool.path("type"),
                     "{} is {}, a tool of Anthropic's own; this server takes only tools with an "
                     "input_schema, whose type is \"custom\"",
                     tool.path("type"), in_quotes(type));
  KVICK_TRY(std::string name, required_string(tool, "name"));
  if (name.empty()) return bad_field(tool.path("name"), "{} is empty", tool.path("name"));
  KVICK_TRY(std::string description, tool.get_string("description", ""));
  const Json* schema = tool.find("input_schema");
  if (schema == nullptr || !schema->is_object())
    return bad_field(tool.path("input_schema"), "{} must be a JSON schema",
                     tool.path("input_schema"));
  tool.ignore({"cache_control", "strict", "eager_input_streaming"});
  KVICK_TRY(const bool later, tool.get_bool("defer_loading", false));
  KVICK_TRY_VOID(tool.check_rest());
  if (later) deferred.insert(name);
  Json function = {{"name", std::move(name)}};
  if (!description.empty()) function["description"] = std::move(description);
  function["parameters"] = *schema;
  return Json({{"type", "function"}, {"function", std::move(function)}});
}

ApiResult<Json> read_list(const Fields& request, const Json& given, ToolNames& deferred) {
  if (!given.is_array() || given.size() > kMostTools)
    return bad_field("tools", "tools must be a list of at most {} tools", kMostTools);
  Json tools = Json::array();
  for (const Json& one : given) {
    KVICK_TRY(Json tool, read_tool(request, one, fmt::format("tools[{}]", tools.size()), deferred));
    tools.push_back(std::move(tool));
  }
  return tools;
}

// Returns the equivalent tool_choice and parallel_tool_calls of OpenAI's API.
ApiResult<Json> read_choice(const Fields& request, const Json& given) {
  KVICK_TRY(Fields choice, request.inside(given, "tool_choice"));
  KVICK_TRY(const std::string type, required_string(choice, "type"));
  KVICK_TRY(const bool one, choice.get_bool("disable_parallel_tool_use", false));
  Json chosen = {{"parallel_tool_calls", !one}};
  if (type == "auto" || type == "none") {
    chosen["tool_choice"] = type;
  } else if (type == "any") {
    chosen["tool_choice"] = "required";
  } else if (type == "tool") {
    KVICK_TRY(std::string name, required_string(choice, "name"));
    chosen["tool_choice"] = {{"type", "function"}, {"function", {{"name", std::move(name)}}}};
  } else {
    return bad_field("tool_choice.type",
                     "tool_choice.type is {}; it must be auto, any, tool or none", in_quotes(type));
  }
  KVICK_TRY_VOID(choice.check_rest());
  return chosen;
}

void defer(const ToolNames& names, Tools& tools) {
  if (names.empty() || tools.list.is_null()) return;
  Json at_once = Json::array();
  for (Json& tool : tools.list) {
    const bool later = names.contains(tool["function"]["name"].get<std::string>());
    (later ? tools.deferred : at_once).push_back(std::move(tool));
  }
  tools.list = at_once.empty() ? Json() : std::move(at_once);
}

}  // namespace

ApiResult<Tools> read_client_tools(Fields& fields) {
  Json same = Json::object();
  if (const Json* choice = fields.find("tool_choice")) {
    KVICK_TRY(Json chosen, read_choice(fields, *choice));
    same = std::move(chosen);
  }
  ToolNames deferred;
  if (const Json* tools = fields.find("tools")) {
    KVICK_TRY(same["tools"], read_list(fields, *tools, deferred));
  }
  KVICK_TRY(Fields chosen, fields.inside(same, ""));
  KVICK_TRY(Tools tools, read_tools(chosen));
  defer(deferred, tools);
  return tools;
}

}  // namespace kvick::server
