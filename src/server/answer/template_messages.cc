#include "server/answer/template_messages.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "server/answer/offered_tools.h"
#include "server/answer/written_calls.h"

namespace kvick::server {
namespace {

bool has_text(const Json& message, const std::string& field) {
  return message.contains(field) && message[field].is_string() &&
         !message[field].get_ref<const std::string&>().empty();
}

void place_thoughts(Json& message, const text::MessageSyntax& syntax) {
  if (syntax.thoughts.empty() || !has_text(message, "reasoning_content")) return;
  if (syntax.thoughts == "reasoning_content" || message.contains("thinking")) return;
  if (syntax.thoughts == "content") {
    Json parts = Json::array({{{"type", "thinking"}, {"thinking", message["reasoning_content"]}}});
    if (has_text(message, "content"))
      parts.push_back({{"type", "text"}, {"text", message["content"]}});
    message["content"] = std::move(parts);
  } else if (!message.contains("tool_calls") || !has_text(message, "content")) {
    // gpt-oss's template refuses a call with both thoughts and content before it.
    message[syntax.thoughts] = message["reasoning_content"];
  }
}

void adapt_calls(Json& message, const text::MessageSyntax& syntax) {
  if (!message.contains("tool_calls")) return;
  if (syntax.null_content && message["content"].is_string()) message["content"] = nullptr;
  if (!syntax.text_arguments) return;
  for (Json& call : message["tool_calls"]) {
    Json& arguments = call["function"]["arguments"];
    arguments = to_text(arguments);
  }
}

// Merges consecutive results, and the user message after them, into one message: many templates
// require roles to alternate.
void add_result(const Json& result, bool behind_result, Json& out) {
  const std::string content = has_text(result, "content") ? result["content"] : Json("");
  const std::string text = "<tool_response>\n" + content + "\n</tool_response>";
  if (!behind_result) {
    out.push_back({{"role", "user"}, {"content", text}});
    return;
  }
  std::string& all = out.back()["content"].get_ref<std::string&>();
  all += "\n" + text;
}

Json with_results(Json messages, const std::string& role) {
  Json out = Json::array();
  bool behind_result = false;
  for (Json& message : messages) {
    const bool result = message["role"] == "tool";
    if (result && role.empty()) {
      add_result(message, behind_result, out);
    } else if (behind_result && message["role"] == "user" && message["content"].is_string()) {
      out.back()["content"].get_ref<std::string&>() +=
          "\n\n" + message["content"].get_ref<const std::string&>();
    } else {
      if (result) message["role"] = role;
      out.push_back(std::move(message));
    }
    behind_result = result && role.empty();
  }
  return out;
}

// Returns whether the template compares with this word or writes it.
bool has_literal(std::string_view chat_template, std::string_view word) {
  return chat_template.find(fmt::format("'{}'", word)) != std::string_view::npos ||
         chat_template.find(fmt::format("\"{}\"", word)) != std::string_view::npos;
}

// Returns the effort if the template has it, or else the next higher one that it has, or else its
// highest. Templates that name no two levels write the effort into the prompt as it is, like
// gpt-oss's, whose levels are low, medium and high.
std::string nearest_effort(const std::string& effort, std::string_view chat_template) {
  constexpr std::array<std::string_view, 7> kScale = {"none", "minimal", "low", "medium",
                                                      "high", "xhigh",   "max"};
  const auto wanted = std::find(kScale.begin(), kScale.end(), effort);
  if (wanted == kScale.end() || has_literal(chat_template, effort)) return effort;
  std::array<bool, kScale.size()> known = {};
  for (size_t i = 1; i < known.size(); ++i) known[i] = has_literal(chat_template, kScale[i]);
  if (std::count(known.begin(), known.end(), true) < 2)
    known = {false, false, true, true, true, false, false};
  const auto at = known.begin() + (wanted - kScale.begin());
  auto found = std::find(at, known.end(), true);
  if (found == known.end())
    while (!*--found) continue;
  return std::string(kScale[static_cast<size_t>(found - known.begin())]);
}

}  // namespace

Json template_variables(Json variables, std::string_view chat_template) {
  if (!variables.is_object()) return variables;
  const auto effort = variables.find("reasoning_effort");
  if (effort != variables.end() && effort->is_string())
    *effort = nearest_effort(effort->get_ref<const std::string&>(), chat_template);
  return variables;
}

Json template_messages(Json messages, const Json& tools, const text::AnswerSyntax& syntax) {
  const text::MessageSyntax& own = syntax.messages;
  messages = with_offered_tools(std::move(messages), tools, syntax);
  messages = with_written_calls(std::move(messages), syntax.calls);
  for (Json& message : messages) {
    if (message["role"] != "assistant") continue;
    place_thoughts(message, own);
    if (syntax.calls.written) adapt_calls(message, own);
  }
  return own.result_role == "tool" ? messages : with_results(std::move(messages), own.result_role);
}

}  // namespace kvick::server
