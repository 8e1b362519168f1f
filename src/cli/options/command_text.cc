// Extracts the commands and their options as data, for man pages and completion scripts.

#include "cli/terminal/command_text.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sstream>

#include "cli/options/command_line.h"

namespace kvick::cli {
namespace {

// CLI11 stores only validators with an option. The suggested values are therefore kept in the name
// of a validator that accepts everything.
constexpr std::string_view kSuggests = "suggests ";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, at);)
    if (!word.empty()) words.push_back(word);
  return words;
}

std::vector<std::string> suggested_words(CLI::Option& option) {
  try {
    for (int i = 0;; ++i) {
      const std::string& name = option.get_validator(i)->get_name();
      if (name.starts_with(kSuggests)) return split(name.substr(kSuggests.size()), ' ');
    }
  } catch (const CLI::OptionNotFound&) {  // no more validators
    return {};
  }
}

ValueKind kind_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return ValueKind::kFlag;
  const std::string name = option.get_type_name();
  if (name == "FILE") return ValueKind::kFile;
  if (name == "FOLDER") return ValueKind::kFolder;
  if (name == "MODEL") return ValueKind::kModel;
  return ValueKind::kText;
}

std::vector<std::string> words_of(CLI::Option& option, const CLI::App& command) {
  std::vector<std::string> words = suggested_words(option);
  const std::string value = option.get_type_name();
  if (words.empty() && value.find('|') != value.npos) words = split(value, '|');
  if (words.empty()) words = listed_names(option.get_description());
  // The command's description may list the values of an argument: kvick lab EXPERIMENT.
  if (words.empty() && !option.nonpositional()) words = listed_names(command.get_description());
  return words;
}

OptionText text_of(CLI::Option& option, const CLI::App& command) {
  OptionText text;
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  if (text.names.empty()) text.argument = option.get_name(true);
  text.kind = kind_of(option);
  if (text.kind != ValueKind::kFlag) {
    text.value = option.get_type_name();
    text.words = words_of(option, command);
    text.several = option.get_expected_max() == CLI::detail::expected_max_vector_size;
  }
  text.help = option.get_description();
  text.fallback = option.get_default_str();
  text.group = option.get_group();
  text.required = option.get_required();
  return text;
}

CommandText text_of(CLI::App& command) {
  CommandText text = {.name = command.get_name(),
                      .summary = command.get_description(),
                      .footer = command.get_parent() == nullptr ? command.get_footer() : "",
                      .options = {},
                      .commands = {}};
  for (CLI::Option* option : command.get_options({}))
    if (!option->get_group().empty()) text.options.push_back(text_of(*option, command));
  for (CLI::App* below : command.get_subcommands({})) text.commands.push_back(text_of(*below));
  return text;
}

}  // namespace

Option& Option::takes(ValueKind kind) {
  // Refuses an empty name, as from an unset variable in a script. An argument without a dash may be
  // a prompt instead.
  const auto named = [](const std::string& text) {
    return text.empty() ? std::string("the name of the model is empty: give one, or leave it out")
                        : std::string();
  };
  if (kind == ValueKind::kModel && option_->nonpositional()) option_->check(named, "");
  switch (kind) {
    case ValueKind::kFile:
      option_->type_name("FILE");
      break;
    case ValueKind::kFolder:
      option_->type_name("FOLDER");
      break;
    case ValueKind::kModel:
      option_->type_name("MODEL");
      break;
    case ValueKind::kFlag:
    case ValueKind::kText:
      break;
  }
  return *this;
}

Option& Option::suggests(const std::vector<std::string>& words) {
  const auto any = [](const std::string&) { return std::string(); };
  option_->check(any, "", fmt::format("{}{}", kSuggests, fmt::join(words, " ")));
  return *this;
}

CommandText Command::text() const { return text_of(*app_); }

}  // namespace kvick::cli
