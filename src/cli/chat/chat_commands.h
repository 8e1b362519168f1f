#pragma once
// The commands of a chat: lines that begin with a slash.

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvick::cli {

enum class ChatAction : uint8_t {
  kHelp,
  kSet,
  kSystem,
  kSave,
  kLoad,
  kKv,
  kStats,
  kClear,
  kRetry,
  kBye,
};

struct ChatCommand {
  std::string_view name;  // with the slash
  ChatAction action;
  std::string_view arguments, summary;  // an empty summary marks another name of the command before
};
std::span<const ChatCommand> chat_commands();

// Returns the command that a line begins with, or null if the line is a message.
const ChatCommand* find_chat_command(std::string_view line);
// Returns what follows the command's name, without the spaces around it.
std::string_view arguments_of(std::string_view line);
// Returns the command that was probably meant by the line's first word; empty if there is none.
std::string_view likely_chat_command(std::string_view line);

// Returns the text of /help.
std::string chat_help();

}  // namespace kvick::cli
