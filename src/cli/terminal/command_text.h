#pragma once
// The program's commands and options as plain data. Command::text() makes it from the real
// commands; completion scripts and man pages are generated from it.

#include <span>
#include <string>
#include <vector>

namespace kvick::cli {

// The kind of an option's value, for shells that complete it. The help shows FILE, FOLDER or MODEL.
enum class ValueKind { kFlag, kText, kFile, kFolder, kModel };

struct OptionText {
  std::vector<std::string> names;  // "-m", "--model"; empty for an argument without a dash
  std::string argument;            // name of an argument without a dash
  std::string value;               // the help's name of the value, such as "N"; empty for a flag
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> words;  // suggested values
  std::string help, fallback;      // fallback: the default, as the help shows it
  std::string group;               // its heading in the help
  bool required = false, several = false;
};

struct CommandText {
  std::string name, summary, footer;
  std::vector<OptionText> options;
  std::vector<CommandText> commands;
};

// Returns the path of commands from the program down to the one with these names; empty if there is
// none.
std::vector<const CommandText*> find_command(const CommandText& program,
                                             std::span<const std::string> names);

// Returns the first line of a help text, cut between words to at most `most` bytes.
std::string brief(const std::string& text, size_t most);

// Returns the names that a help text lists, one per line, as in "  bmc    rows in one piece".
// Options after a name are left out: "  auto:loss=0.02" gives "auto".
std::vector<std::string> listed_names(const std::string& help);

}  // namespace kvick::cli
