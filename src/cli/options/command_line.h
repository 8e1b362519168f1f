#pragma once
// The program's commands and their options. CLI11 parses them, but only command_line.cc and
// command_text.cc include it: its header adds eight seconds to the compile time of a file.

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

// A handle of a command's option; copies refer to the same option.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option& required();
  Option& excludes(const Option& other);
  Option& in_range(double least, double most);  // bounds of each number
  Option& shows_default();                      // the help shows the variable's current value
  Option& in_group(const std::string& name);    // name: a heading in the help
  // For lists: each occurrence takes one value, so that an argument may follow.
  Option& takes_one();
  // Sets the kind of the value, and values that a shell may offer.
  Option& takes(ValueKind kind);
  Option& suggests(const std::vector<std::string>& words);
  // Allows an option with one value to be repeated: its variable keeps the first value, all()
  // returns all of them.
  Option& may_repeat();
  bool given() const;  // valid after parsing, as is all()
  std::vector<std::string> all() const;

 private:
  CLI::Option* option_;
};

// A handle of a command: `kvick`, `kvick run` or `kvick train distil`; copies refer to the same
// command.
class Command {
 public:
  using Status = base::Result<int>;  // the exit status, or a user's mistake
  Command(CLI::App& app, std::function<Status()>& chosen) : app_(&app), chosen_(&chosen) {}

  Command add_command(const std::string& name, const std::string& summary) const;
  // names: "-p,--prompt", or "prompt" for an argument without a dash. T: std::string, a number, or
  // std::vector<std::string>, which takes several values.
  template <typename T>
  Option add_option(const std::string& names, T& value, const std::string& help) const;
  Option add_flag(const std::string& names, bool& value, const std::string& help) const;
  // Takes an amount such as 1048576, 512MB or 4GB, in powers of 1024.
  Option add_bytes(const std::string& names, uint64_t& value, const std::string& help) const;
  // Takes one of several names that stand for values. The help shows the variable's value as the
  // default.
  template <typename E>
  Option add_choice(const std::string& names, E& value,
                    const std::vector<std::pair<std::string, E>>& choices,
                    const std::string& help) const;
  Option option(const std::string& name) const;  // must exist
  // Replaces the help text of an existing option.
  void describe(const std::string& name, const std::string& help) const;

  // Returns this command and those below it, for man pages and completion scripts.
  CommandText text() const;

  void needs_command() const;
  // Sets the function to run when the line names this command.
  void runs(std::function<Status()> run) const;
  // Like runs(), but passes on all words after the command, --help included: they belong to another
  // program.
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

// Lets `add` register the commands, parses the line and runs the command that it names. Returns the
// exit status: 2 after a user's mistake, which is one line on stderr.
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
