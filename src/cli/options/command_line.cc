#include "cli/options/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <type_traits>

#include "cli/terminal/help_text.h"
#include "cli/terminal/terminal.h"

namespace kvick::cli {
namespace {

constexpr size_t kColumns = 110, kNameColumns = 30;

// CLI11's help, with lines as wide as a screen, defaults after the text, and only the first line
// about each command in the list of commands.
class Help : public CLI::Formatter {
 public:
  Help() { column_width(kNameColumns); }

  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return {};
    const bool several = option->get_expected_max() == CLI::detail::expected_max_vector_size;
    // The name of a positional argument says what its value is.
    const std::string type = option->nonpositional() ? " " + option->get_type_name() : "";
    return type + (several ? " ..." : "");
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_default_str().empty())
      text += fmt::format(" (default: {})", option->get_default_str());
    if (option->get_required() && option->nonpositional()) text += " (required)";
    return wrapped(text, kColumns - kNameColumns);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text = command->get_description();
    text = text.substr(0, text.find('\n'));
    std::stringstream out;
    CLI::detail::format_help(out, command->get_name(), wrapped(text, kColumns - kNameColumns),
                             kNameColumns);
    return out.str();
  }
  // CLI11 puts an empty line at the end of a group and another before the next one.
  std::string make_help(const CLI::App* command, std::string name,
                        CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(CLI::Formatter::make_help(command, std::move(name), mode),
                                         "\n\n\n", "\n\n");
  }
  std::string make_description(const CLI::App* command) const override {
    const std::string text = command->get_description();
    return text.empty() ? text : wrapped(text, kColumns) + "\n";
  }
};

std::string option_name(const CLI::Option& option) {
  return option.get_name(option.get_positional() && !option.nonpositional());
}

// Returns all option names that are valid for the command, including its parents' options.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent())
    for (const CLI::Option* option : app->get_options({})) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
      for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    }
  return names;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* one : command.get_subcommands({})) names.push_back(one->get_name());
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& names) {
  const std::string_view meant = nearest(word, names);
  return meant.empty() ? std::string() : fmt::format("; did you mean '{}'?", meant);
}

std::string about_command(const CLI::App& command, const std::string& word) {
  const std::vector<std::string> commands = command_names(command);
  std::string meant = did_you_mean(word, commands);
  if (meant.empty()) meant = "; there are " + joined(commands);
  if (command.get_parent() == nullptr)
    return fmt::format("there is no command '{}'{}", word, meant);
  return fmt::format("{} has no command '{}'{}", command.get_name(), word, meant);
}

// Returns the message about words that no command and no option took.
std::string about_extra(const CLI::App& command, const std::vector<std::string>& extras) {
  const std::string name = command.get_name();
  const auto dashed = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  // An unknown option is reported first: the words after it may have been its value.
  const auto option = std::find_if(extras.begin(), extras.end(), dashed);
  if (option != extras.end() && *option != "--") {
    const std::string word = option->substr(0, option->find('='));
    return fmt::format("{} has no option {}{}", name, word,
                       did_you_mean(word, option_names(command)));
  }
  const std::string& word = extras.front();
  if (command_names(command).empty()) return fmt::format("{} takes no argument '{}'", name, word);
  return about_command(command, word);
}

// Returns the message about the first two options given that exclude each other.
std::optional<std::string> about_both(const CLI::App& command) {
  for (const CLI::Option* one : command.get_options({}))
    for (const CLI::Option* other : one->get_excludes())
      if (one->count() > 0 && other->count() > 0)
        return fmt::format("{} and {} cannot be given together", option_name(*one),
                           option_name(*other));
  return std::nullopt;
}

// Returns the message about an option with one value that was given more than once.
std::optional<std::string> about_repeated(const CLI::App& command) {
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent())
    for (const CLI::Option* option : app->get_options({}))
      if (option->get_type_size() > 0 && option->get_expected_max() == 1 && option->count() > 1 &&
          option->get_multi_option_policy() == CLI::MultiOptionPolicy::Throw)
        return fmt::format("{} was given {} times: give it once", option_name(*option),
                           option->count());
  return std::nullopt;
}

std::string complaint(const CLI::App& program, const CLI::ParseError& error) {
  const CLI::App* command = &program;
  std::string path = program.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  const std::vector<std::string> extras = program.remaining(true);
  std::string what = error.what();
  if (!extras.empty())
    what = about_extra(*command, extras);
  else if (command->get_require_subcommand_min() > 0)
    what = fmt::format("a command is missing: one of {}", joined(command_names(*command)));
  else if (const auto both = about_both(*command))
    what = *both;
  else if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    what = about_repeated(*command).value_or(
        fmt::format("{} needs a value", what.substr(0, what.find(':'))));
  return fmt::format("{} ({} --help lists what there is)", what, path);
}

constexpr const char* kHelpCommand = "help";

const CLI::App* inner_command(const CLI::App& command, const std::string& name) {
  for (const CLI::App* one : command.get_subcommands({}))
    if (one->get_name() == name) return one;
  return nullptr;
}

// Turns `kvick help train distil` into `kvick train distil --help`. Error: a word that is not a
// command.
base::Result<std::vector<std::string>> words_of(int argc, char** argv, const CLI::App& program) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto first = std::find_if(words.begin(), words.end(),
                                  [](const std::string& word) { return !word.starts_with('-'); });
  if (first == words.end() || *first != kHelpCommand) return words;
  words.erase(first);
  const CLI::App* command = &program;
  for (const std::string& word : words) {
    if (word.starts_with('-')) continue;
    const CLI::App* inner = inner_command(*command, word);
    // The words after this command belong to another program.
    if (inner == nullptr && command->get_prefix_command()) break;
    if (inner == nullptr) return base::fail("{}", about_command(*command, word));
    command = inner;
  }
  words.emplace_back("--help");
  return words;
}

template <typename T>
std::string check_number(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, value);
  if (wrong == std::errc::result_out_of_range) return fmt::format("'{}' is too large", text);
  if (wrong == std::errc() && at == end) return {};
  return fmt::format("'{}' is not a {}number", text, std::is_integral_v<T> ? "whole " : "");
}

template <typename T>
T number_of(const std::string& text) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <typename T>
CLI::Option* add_number(CLI::App& app, const std::string& names, const std::string& help,
                        std::function<void(T)> take) {
  const auto callback = [take](const CLI::results_t& words) {
    take(number_of<T>(words.back()));
    return true;
  };
  CLI::Option* option = app.add_option(names, callback, help);
  option->type_name("N")->check(CLI::Validator(check_number<T>, ""));
  return option;
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}

Option& Option::excludes(const Option& other) {
  option_->excludes(other.option_);
  return *this;
}

Option& Option::in_range(double least, double most) {
  const auto check = [least, most](const std::string& text) {
    const double value = number_of<double>(text);
    if (value >= least && value <= most) return std::string();
    return fmt::format("{} is not from {} to {}", text, least, most);
  };
  option_->check(check, "");
  return *this;
}

Option& Option::shows_default() {
  option_->capture_default_str();
  return *this;
}

Option& Option::in_group(const std::string& name) {
  option_->group(name);
  return *this;
}

Option& Option::takes_one() {
  option_->allow_extra_args(false);
  return *this;
}

Option& Option::may_repeat() {
  option_->multi_option_policy(CLI::MultiOptionPolicy::TakeFirst);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

std::vector<std::string> Option::all() const { return option_->results(); }

Command Command::add_command(const std::string& name, const std::string& summary) const {
  return {*app_->add_subcommand(name, summary), *chosen_};
}

template <typename T>
Option Command::add_option(const std::string& names, T& value, const std::string& help) const {
  if constexpr (std::is_arithmetic_v<T>) {
    CLI::Option* option = add_number<T>(*app_, names, help, [&value](T given) { value = given; });
    option->default_function([&value] { return fmt::format("{}", value); });
    return Option(option);
  } else if constexpr (IsOptional<T>::value) {
    using Number = typename T::value_type;
    return Option(add_number<Number>(*app_, names, help, [&value](Number n) { value = n; }));
  } else {
    return Option(app_->add_option(names, value, help));
  }
}

template Option Command::add_option(const std::string&, std::string&, const std::string&) const;
template Option Command::add_option(const std::string&, std::vector<std::string>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, int32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint16_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint32_t&, const std::string&) const;
template Option Command::add_option(const std::string&, uint64_t&, const std::string&) const;
template Option Command::add_option(const std::string&, float&, const std::string&) const;
template Option Command::add_option(const std::string&, double&, const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<uint32_t>&,
                                    const std::string&) const;
template Option Command::add_option(const std::string&, std::optional<uint64_t>&,
                                    const std::string&) const;

Option Command::add_flag(const std::string& names, bool& value, const std::string& help) const {
  return Option(app_->add_flag(names, value, help));
}

Option Command::add_bytes(const std::string& names, uint64_t& value,
                          const std::string& help) const {
  const auto in_bytes = [](std::string& text) {
    const std::string given = text;
    try {
      if (CLI::AsSizeValue(false)(text).empty() && check_number<uint64_t>(text).empty())
        return std::string();
    } catch (const CLI::ValidationError&) {  // CLI11's message would list thirty units
    }
    return fmt::format("'{}' is not an amount of memory, such as 512MB or 4GB", given);
  };
  CLI::Option* option =
      app_->add_option(names, value, help)->transform(CLI::Validator(in_bytes, ""));
  return Option(option->type_name("SIZE"));
}

Option Command::add_word(const std::string& names, const std::vector<std::string>& words,
                         size_t now, std::function<void(size_t)> take,
                         const std::string& help) const {
  const auto index_of = [words](const std::string& text) {
    const std::string small = CLI::detail::to_lower(text);
    return static_cast<size_t>(std::find(words.begin(), words.end(), small) - words.begin());
  };
  const auto check = [words, index_of](const std::string& text) {
    if (index_of(text) < words.size()) return std::string();
    return fmt::format("'{}' is none of {}", text, joined(words));
  };
  const auto callback = [take, index_of](const CLI::results_t& given) {
    take(index_of(given.back()));
    return true;
  };
  CLI::Option* option = app_->add_option(names, callback, help);
  option->type_name(fmt::format("{}", fmt::join(words, "|")))->check(CLI::Validator(check, ""));
  if (now < words.size()) option->default_str(words[now]);
  return Option(option);
}

Option Command::option(const std::string& name) const { return Option(app_->get_option(name)); }

void Command::describe(const std::string& name, const std::string& help) const {
  app_->get_option(name)->description(help);
}

void Command::needs_command() const { app_->require_subcommand(1); }

void Command::runs(std::function<Status()> run) const {
  app_->callback([chosen = chosen_, run = std::move(run)] { *chosen = run; });
}

void Command::passes_on(std::function<Status(const std::vector<std::string>&)> run) const {
  app_->prefix_command()->fallthrough(false)->set_help_flag();
  app_->callback([app = app_, chosen = chosen_, run = std::move(run)] {
    *chosen = [app, run] { return run(app->remaining()); };
  });
}

int run_command_line(int argc, char** argv, const ProgramText& text,
                     const std::function<void(const Command& program)>& add) {
  CLI::App app{text.summary, text.name};
  std::function<Command::Status()> chosen;
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("--version", text.version, "show the version");
  app.set_help_flag("-h,--help", "show this help");
  app.fallthrough();
  app.footer(text.footer);
  const Command program(app, chosen);
  program.needs_command();
  add(program);
  app.add_subcommand(kHelpCommand, "a command's help: kvick help run");
  auto words = words_of(argc, argv, app);
  if (!words.ok()) {
    fmt::print(stderr, "kvick: {}\n", printable(words.error().message));
    return 2;
  }
  try {
    std::reverse(words->begin(), words->end());  // CLI11 expects the words in reverse
    app.parse(std::move(*words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "kvick: {}\n", printable(complaint(app, error)));
    return 2;
  }
  if (!chosen) {  // `kvick --option VALUE help`
    fmt::print("{}", app.help());
    return 0;
  }
  const Command::Status status = chosen();
  if (status.ok()) return *status;
  fmt::print(stderr, "kvick: {}\n", printable(status.error().message));
  return 2;
}

}  // namespace kvick::cli
