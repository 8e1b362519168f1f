#include "text/template/message_syntax.h"

namespace kvick::text {
namespace {

using Json = Probe::Json;

bool has(const std::optional<std::string>& text, std::string_view word) {
  return text && text->find(word) != text->npos;
}

std::string thoughts_field(const Probe& probe) {
  for (const char* field : {"reasoning_content", "reasoning", "thinking"})
    if (has(probe.render_answer(
                {{"role", "assistant"}, {"content", Probe::kText}, {field, Probe::kThought}},
                false),
            Probe::kThought))
      return field;
  const Json parts = Json::array({{{"type", "thinking"}, {"thinking", Probe::kThought}},
                                  {{"type", "text"}, {"text", Probe::kText}}});
  const auto text = probe.render_answer({{"role", "assistant"}, {"content", parts}}, false);
  const size_t at = text ? text->find(Probe::kThought) : std::string::npos;
  // A template that prints the list itself does not know parts.
  const bool quoted = at != std::string::npos && at > 0 && (*text)[at - 1] < '(';
  return at == std::string::npos || quoted ? "" : "content";
}

// Chooses the form that renders the call in the shortest text: with others, a template may write
// "None", or an empty turn for "".
void learn_calls(const Probe& probe, MessageSyntax& syntax) {
  for (const bool text_arguments : {false, true}) {
    size_t shortest = std::string::npos;
    for (const bool null_content : {false, true}) {
      const auto text =
          probe.render_answer(Probe::calling(null_content, text_arguments, false), true);
      if (!has(text, Probe::kKey) || !has(text, Probe::kValue)) continue;
      if (text->size() >= shortest) continue;
      shortest = text->size();
      syntax.null_content = null_content, syntax.text_arguments = text_arguments;
    }
    if (shortest != std::string::npos) return;
  }
}

std::string role_of_results(const Probe& probe, const MessageSyntax& syntax) {
  for (const char* role : {"tool", "observation"}) {
    const Json result = {{"role", role},
                         {"tool_call_id", "call00000"},
                         {"name", Probe::kName},
                         {"content", Probe::kResult}};
    const Json call = Probe::calling(syntax.null_content, syntax.text_arguments, false);
    if (has(probe.render(Json::array({call, result}), true, true), Probe::kResult)) return role;
  }
  return "";
}

}  // namespace

MessageSyntax learn_message_syntax(const Probe& probe) {
  MessageSyntax syntax;
  const Json none = Json::array();
  syntax.offers_tools =
      has(probe.render(none, true, true), Probe::kName) || !probe.render(none, false, true);
  syntax.has_system = has(probe.render_behind(Probe::kText, none, false, true), Probe::kText);
  syntax.thoughts = thoughts_field(probe);
  learn_calls(probe, syntax);
  syntax.result_role = role_of_results(probe, syntax);
  return syntax;
}

}  // namespace kvick::text
