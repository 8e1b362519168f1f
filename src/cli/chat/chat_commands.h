#pragma once
// The lines of a chat that begin with a slash.

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
  std::string_view arguments, summary;  // no summary: another name of the one before
};
std::span<const ChatCommand> chat_commands();

// The command that a line begins with; null: there is none, and the line is a message.
const ChatCommand* find_chat_command(std::string_view line);
// What follows its name, without spaces around.
std::string_view arguments_of(std::string_view line);
// For a line that begins with a word like a command: the one that was likely meant, else empty.
std::string_view likely_chat_command(std::string_view line);

// What /help shows.
std::string chat_help();

}  // namespace kvick::cli
