#pragma once
// The program's commands and their options. CLI11 parses them, inside command_line.cc and
// command_text.cc alone: its header costs a file that includes it eight seconds of compiling.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/terminal/command_text.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace kvick::cli {

// An option of a command; a copy is the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& excludes(const Option& other);
  Option& in_range(double least, double most);  // of each number
  Option& shows_default();                      // in the help: the value that the variable has now
  Option& in_group(const std::string& name);    // a heading of the help
  // For lists: takes one value each time it is given, so that an argument may follow.
  Option& takes_one();
  // What the value is, and values that a shell may offer for it.
  Option& takes(ValueKind kind);
  Option& suggests(const std::vector<std::string>& words);
  // An option with one value may be repeated: its variable keeps the first, all() has all.
  Option& may_repeat();
  bool given() const;  // once the line is parsed, as
  std::vector<std::string> all() const;

 private:
  CLI::Option* option_;
};

// `kvick`, `kvick run` or `kvick train distil`; a copy is the same command.
class Command {
 public:
  using Status = base::Result<int>;  // the exit status, or a user's mistake
  Command(CLI::App& app, std::function<Status()>& chosen) : app_(&app), chosen_(&chosen) {}

  Command add_command(const std::string& name, const std::string& summary) const;
  // Names: "-p,--prompt", or "prompt" for an argument without a dash. T: std::string, a number, or
  // a std::vector<std::string>, which takes several.
  template <typename T>
  Option add_option(const std::string& names, T& value, const std::string& help) const;
  Option add_flag(const std::string& names, bool& value, const std::string& help) const;
  // 1048576, 512MB, 4GB: powers of 1024.
  Option add_bytes(const std::string& names, uint64_t& value, const std::string& help) const;
  // A choice among names that stand for values. The help shows the variable's value as default.
  template <typename E>
  Option add_choice(const std::string& names, E& value,
                    const std::vector<std::pair<std::string, E>>& choices,
                    const std::string& help) const;
  Option option(const std::string& name) const;  // that it has
  // Says something else than before about an option that it has.
  void describe(const std::string& name, const std::string& help) const;

  // This command and those below it, for man pages and completion scripts.
  CommandText text() const;

  void needs_command() const;
  // What the program does when the line names this command.
  void runs(std::function<Status()> run) const;
  // The same with all words behind the command, which are another program's, --help too.
  void passes_on(std::function<Status(const std::vector<std::string>& words)> run) const;

 private:
  Option add_word(const std::string& names, const std::vector<std::string>& words, size_t now,
                  std::function<void(size_t)> take, const std::string& help) const;
  CLI::App* app_;
  std::function<Status()>* chosen_;
};

struct ProgramText {
  std::string name, summary, version, footer;
};

// Parses the line after `add` has added the commands, and runs the one that it names. Returns the
// exit status: 2 after a mistake, which is one line on stderr.
int run_command_line(int argc, char** argv, const ProgramText& text,
                     const std::function<void(const Command& program)>& add);

template <typename E>
Option Command::add_choice(const std::string& names, E& value,
                           const std::vector<std::pair<std::string, E>>& choices,
                           const std::string& help) const {
  std::vector<std::string> words;
  std::vector<E> values;
  size_t now = choices.size();
  for (const auto& [word, meaning] : choices) {
    if (meaning == value) now = words.size();
    words.push_back(word);
    values.push_back(meaning);
  }
  return add_word(
      names, words, now, [&value, values](size_t i) { value = values[i]; }, help);
}

}  // namespace kvick::cli
