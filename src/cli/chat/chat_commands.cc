#include "cli/chat/chat_commands.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "cli/chat/chat.h"
#include "cli/terminal/help_text.h"

namespace kvick::cli {
namespace {

constexpr std::array kCommands = {
    ChatCommand{"/help", ChatAction::kHelp, "", "show this"},
    ChatCommand{"/set", ChatAction::kSet, "[NAME VALUE]",
                "show the settings, or change one: temperature, top_p, seed, max_tokens, ..."},
    ChatCommand{"/system", ChatAction::kSystem, "[TEXT]",
                "show the system message, or give another one"},
    ChatCommand{"/save", ChatAction::kSave, "FILE", "write the conversation to a file"},
    ChatCommand{"/load", ChatAction::kLoad, "FILE", "go on with a conversation that was saved"},
    ChatCommand{"/kv", ChatAction::kKv, "[STRATEGY [TYPE]]",
                "show the cache, or begin a conversation with another one: /kv paged q8"},
    ChatCommand{"/stats", ChatAction::kStats, "", "show what the last turn took"},
    ChatCommand{"/clear", ChatAction::kClear, "", "forget the conversation"},
    ChatCommand{"/retry", ChatAction::kRetry, "", "answer the last message once more"},
    ChatCommand{"/bye", ChatAction::kBye, "", "leave; Ctrl-D does too"},
    ChatCommand{"/exit", ChatAction::kBye, "", ""},
    ChatCommand{"/quit", ChatAction::kBye, "", ""},
};

std::string_view first_word(std::string_view line) { return line.substr(0, line.find(' ')); }

}  // namespace

std::span<const ChatCommand> chat_commands() { return kCommands; }

const ChatCommand* find_chat_command(std::string_view line) {
  const std::string_view word = first_word(line);
  const auto* const found = std::find_if(kCommands.begin(), kCommands.end(),
                                         [&](const ChatCommand& one) { return one.name == word; });
  if (found == kCommands.end()) return nullptr;
  // "/clear the table" is a message: /clear takes no arguments.
  return found->arguments.empty() && !arguments_of(line).empty() ? nullptr : found;
}

std::string_view arguments_of(std::string_view line) {
  line.remove_prefix(first_word(line).size());
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  line.remove_prefix(begin);
  return line.substr(0, line.find_last_not_of(' ') + 1);
}

std::string_view likely_chat_command(std::string_view line) {
  std::vector<std::string> names;
  for (const ChatCommand& one : kCommands) names.emplace_back(one.name);
  const std::string meant(nearest(first_word(line), names));
  for (const ChatCommand& one : kCommands)
    if (one.name == meant && one.name != first_word(line)) return one.name;
  return {};
}

std::string chat_help() {
  std::string text =
      "Type a message and press Enter; end a line with \\ to go on in the next, or put several "
      "lines\nbetween \"\"\" and \"\"\". Ctrl-C stops an answer, and leaves from an empty line.\n";
  for (const ChatCommand& one : kCommands)
    if (!one.summary.empty())
      text +=
          fmt::format("  {:<24} {}\n", fmt::format("{} {}", one.name, one.arguments), one.summary);
  if (!has_line_editing())
    text += "This kvick was built without libedit: no editing of lines and no history.\n";
  return text;
}

std::vector<std::string> complete_chat_command(std::string_view before) {
  std::vector<std::string> found;
  const auto add = [&](std::string text) {
    if (text.starts_with(before)) found.push_back(std::move(text));
  };
  if (!before.starts_with('/')) return found;
  if (before.starts_with("/set "))
    for (const std::string& name : chat_setting_names()) add(fmt::format("/set {} ", name));
  else
    for (const ChatCommand& one : kCommands)
      if (!one.summary.empty())
        add(fmt::format("{}{}", one.name, one.arguments.empty() ? "" : " "));
  return found;
}

}  // namespace kvick::cli
