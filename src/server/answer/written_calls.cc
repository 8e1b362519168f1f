#include "server/answer/written_calls.h"

namespace kvick::server {
namespace {

std::string python_text(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (!value.is_structured()) return to_text(value);
  std::string text;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += to_text(Json(it.key())) + ": ";
    text += python_text(*it);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string python_call(const std::string& name, const Json& arguments) {
  std::string text;
  for (auto it = arguments.begin(); it != arguments.end(); ++it)
    text += (text.empty() ? "" : ", ") + it.key() + "=" + python_text(*it);
  return name + "(" + text + ")";
}

}  // namespace

std::string written_calls(const Json& calls, const text::AnswerSyntax::Calls& syntax) {
  const bool python = syntax.form == text::AnswerSyntax::Calls::Form::kPython;
  using Form = text::AnswerSyntax::Calls::Form;
  const bool named = syntax.form == Form::kNamed && syntax.open.empty();  // GLM-4
  std::string text;
  for (const Json& call : calls) {
    const Json& function = call["function"];
    const std::string name =
        function["name"].is_string() ? function["name"].get<std::string>() : "";
    if (python)
      text += (text.empty() ? "" : ", ") + python_call(name, function["arguments"]);
    else if (named)
      text += (text.empty() ? "" : "\n") + name + "\n" + to_text(function["arguments"]);
    else
      text += (text.empty() ? "" : "\n") + syntax.open +
              to_text({{"name", name}, {"arguments", function["arguments"]}}) + syntax.close;
  }
  return python && !text.empty() ? syntax.open + "[" + text + "]" + syntax.close : text;
}

Json with_written_calls(Json messages, const text::AnswerSyntax::Calls& syntax) {
  for (Json& message : messages) {
    if (syntax.written || !message.contains("tool_calls")) continue;
    std::string content =
        message["content"].is_string() ? message["content"].get<std::string>() : "";
    const std::string calls = written_calls(message["tool_calls"], syntax);
    if (!content.empty() && !calls.empty()) content += "\n";
    message["content"] = content + calls;
  }
  return messages;
}

}  // namespace kvick::server
