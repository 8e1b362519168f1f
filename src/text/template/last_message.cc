#include "text/template/last_message.h"

#include <algorithm>
#include <string_view>

namespace kvick::text {
namespace {

constexpr std::string_view kSpace = " \t\n\r\v\f";

std::string_view without_space_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kSpace), text.size()));
}

std::string_view without_space_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

}  // namespace

base::Status<> cut_behind_last_message(const nlohmann::ordered_json& messages,
                                       std::string& prompt) {
  const bool has_text = !messages.empty() && messages.back().is_object() &&
                        messages.back().contains("content") &&
                        messages.back()["content"].is_string();
  if (!has_text) return base::fail("the last message has no text to go on from");
  const std::string_view text =
      without_space_before(messages.back()["content"].get_ref<const std::string&>());
  const std::string_view trimmed = without_space_behind(text);
  if (trimmed.empty()) return base::fail("the last message has no text to go on from");
  const size_t at = prompt.rfind(trimmed);
  if (at == std::string::npos)
    return base::fail("the chat template changes the last message, so that it cannot go on");
  const bool kept = std::string_view(prompt).substr(at, text.size()) == text;
  prompt.resize(at + (kept ? text.size() : trimmed.size()));
  return base::Done{};
}

}  // namespace kvick::text
