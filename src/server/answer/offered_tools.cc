#include "server/answer/offered_tools.h"

#include <algorithm>

namespace kvick::server {
namespace {

using Calls = text::AnswerSyntax::Calls;

// Returns a sample call with placeholders for the names and values.
std::string call_pattern(const Calls& syntax) {
  const Json arguments = {{"ARGUMENT", "VALUE"}};
  std::string call = syntax.all_open + syntax.open;
  switch (syntax.form) {
    case Calls::Form::kJson:
      call += to_text(syntax.name_key.empty()
                          ? Json({{"NAME", arguments}})
                          : Json({{syntax.name_key, "NAME"}, {"arguments", arguments}}));
      break;
    case Calls::Form::kNamed:
      call += "NAME" + syntax.after_name + to_text(arguments);
      break;
    case Calls::Form::kTagged:
      call += "NAME" + syntax.after_name + syntax.key_open + "ARGUMENT" + syntax.key_close +
              "VALUE" + syntax.value_close;
      break;
    case Calls::Form::kPython:
      call += "[NAME(ARGUMENT=VALUE)]";
      break;
  }
  return call + syntax.close + syntax.all_close;
}

// Adds text to content, a string or a list of parts: at its end, or at its front if not `behind`.
void add_text(Json& content, const std::string& text, bool behind) {
  if (content.is_array()) {
    const Json part = {{"type", "text"}, {"text", text}};
    content.insert(behind ? content.end() : content.begin(), part);
    return;
  }
  const std::string old = content.is_string() ? content.get<std::string>() : "";
  const char* const between = old.empty() ? "" : "\n\n";
  content = behind ? old + between + text : text + between + old;
}

}  // namespace

std::string offered_tools(const Json& tools, const Calls& syntax) {
  std::string text = "You can call these tools:\n";
  for (const Json& tool : tools)
    text += to_text(tool.contains("function") ? tool["function"] : tool) + "\n";
  return text + "To call one, answer with nothing but its name and its arguments in this form:\n" +
         call_pattern(syntax) +
         "\nThe next message then has the result. Where no tool is needed, answer in words.";
}

Json with_offered_tools(Json messages, const Json& tools, const text::AnswerSyntax& syntax) {
  if (syntax.messages.offers_tools || !tools.is_array() || tools.empty()) return messages;
  const std::string text = offered_tools(tools, syntax.calls);
  const auto is = [&](size_t i, std::string_view role) {
    return i < messages.size() && messages[i]["role"] == role;
  };
  if (is(0, "system") || is(0, "developer")) {
    add_text(messages[0]["content"], text, true);
  } else if (syntax.messages.has_system || !is(0, "user")) {
    const Json message = {{"role", "system"}, {"content", text}};
    messages.insert(messages.begin(), message);
  } else {
    add_text(messages[0]["content"], text, false);
  }
  return messages;
}

}  // namespace kvick::server
