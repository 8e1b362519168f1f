#pragma once
// What the program's commands take, as plain data. Command::text() makes it from the real commands;
// completion scripts and man pages are written from it.

#include <span>
#include <string>
#include <vector>

namespace kvick::cli {

// What the value of an option is, for shells that complete it. The help shows FILE, FOLDER, MODEL.
enum class ValueKind { kFlag, kText, kFile, kFolder, kModel };

struct OptionText {
  std::vector<std::string> names;  // "-m", "--model"; empty for an argument without a dash
  std::string argument;            // name of an argument without a dash
  std::string value;               // what the help calls the value: "N"; empty for a flag
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> words;  // values to offer
  std::string help, fallback;      // fallback: the default, as the help shows it
  std::string group;               // the heading of the help
  bool required = false, several = false;
};

struct CommandText {
  std::string name, summary, footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

// The commands from the program down to the one of these names; empty if there is none.
std::vector<const CommandText*> find_command(const CommandText& program,
                                             std::span<const std::string> names);

// The first line of a help text, cut between words to at most `most` bytes.
std::string brief(const std::string& text, size_t most);

// The names that a help text lists, a line each: "  bmc    rows in one piece". Without the
// options that may stand behind one: "  auto:loss=0.02".
std::vector<std::string> listed_names(const std::string& help);

}  // namespace kvick::cli
