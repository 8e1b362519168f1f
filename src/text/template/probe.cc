#include "text/template/probe.h"

namespace kvick::text {
namespace {

using Json = Probe::Json;

Json tool() {
  const Json text = {{"type", "string"}, {"description", "d"}};
  return {{"type", "function"},
          {"function",
           {{"name", Probe::kName},
            {"description", "d"},
            {"parameters",
             {{"type", "object"},
              {"properties", {{Probe::kKey, text}, {Probe::kSecondKey, text}}},
              {"required", Json::array({Probe::kKey, Probe::kSecondKey})}}}}}};
}

}  // namespace

std::optional<std::string> Probe::render_behind(std::string_view system, const Json& following,
                                                bool tools, bool prompt) const {
  Json context = {{"messages", Json::array()}, {"add_generation_prompt", prompt},
                  {"bos_token", ""},           {"eos_token", ""},
                  {"enable_thinking", true},   {"tools", nullptr}};
  if (!system.empty()) context["messages"].push_back({{"role", "system"}, {"content", system}});
  context["messages"].push_back({{"role", "user"}, {"content", "QUESTIONQX"}});
  for (const Json& message : following) context["messages"].push_back(message);
  if (tools) context["tools"] = Json::array({tool()});
  auto rendered = template_.render(context, options_);
  return rendered.ok() ? std::optional(*std::move(rendered)) : std::nullopt;
}

Json Probe::calling(bool null_content, bool text_arguments, bool twice) {
  Json arguments = {{kKey, kValue}, {kSecondKey, kSecondValue}};
  if (text_arguments) arguments = arguments.dump();
  Json calls = Json::array();
  for (const std::string_view name : {kName, kSecondName}) {
    if (name == kSecondName && !twice) break;
    // Mistral's templates require ids of nine characters.
    calls.push_back({{"id", name == kName ? "call00000" : "call00001"},
                     {"type", "function"},
                     {"function", {{"name", name}, {"arguments", arguments}}}});
  }
  return {{"role", "assistant"},
          {"content", null_content ? Json() : Json("")},
          {"tool_calls", std::move(calls)}};
}

}  // namespace kvick::text
