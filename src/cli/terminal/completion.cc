#include "cli/terminal/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <iterator>

namespace kvick::cli {
namespace {

constexpr size_t kBrief = 72;  // bytes of the description beside a name

// Bash and zsh use the same tables: three functions that set the array `reply` to a command's
// subcommands, a command's options, and the values of an option. @file, @folder, @model and @text
// stand for values that are not listed. An option without values is a flag.
constexpr const char* kBash = R"sh(
_kvick() {
  local cur=${COMP_WORDS[COMP_CWORD]} at=kvick option= word name i kept= first=$COMP_CWORD
  local -a reply
  # Bash cuts hf:owner/name into three words, and puts what it is told behind the last colon.
  local typed=${COMP_LINE:0:COMP_POINT}
  typed=${typed##*[[:space:]]}
  if [[ $COMP_WORDBREAKS == *:* && $typed == *:* && $typed != -* ]]; then
    while [[ $cur != "$typed" && $first -gt 1 ]]; do cur=${COMP_WORDS[--first]}$cur; done
    cur=$typed kept=${typed%"${typed##*:}"}
  fi
  # Bash cuts --option=value into three words.
  for ((i = 1; i < first; ++i)); do
    word=${COMP_WORDS[i]}
    [[ $word != = ]] || continue
    if [[ -n $option ]]; then
      option=
    elif [[ $word == -* ]]; then
      _kvick_value_of "$at" "$word"
      [[ ${#reply[@]} == 0 ]] || option=$word
    else
      _kvick_commands_of "$at"
      for name in "${reply[@]}"; do
        [[ $name != "$word" ]] || { at+=" $word"; break; }
      done
    fi
  done
  [[ $cur != = ]] || cur=
  if [[ -n $option ]]; then
    _kvick_value_of "$at" "$option"
  elif [[ $cur == -* ]]; then
    _kvick_options_of "$at"
  else
    _kvick_commands_of "$at"
    [[ ${#reply[@]} != 0 ]] || _kvick_value_of "$at" ''
  fi
  COMPREPLY=()
  local words=
  for word in "${reply[@]}"; do
    case $word in
      @file | @model) compopt -o filenames 2>/dev/null; _kvick_add -f -- "$cur" ;;
      @folder) compopt -o filenames 2>/dev/null; _kvick_add -d -- "$cur" ;;
    esac
    case $word in
      @model) words+=" $(_kvick_models)" ;;
      @*) ;;
      *) words+=" $word" ;;
    esac
  done
  [[ -z $words ]] || _kvick_add -W "$words" -- "$cur"
  [[ -z $kept ]] || COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}

_kvick_add() {
  local line
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$@")
}

complete -F _kvick kvick
)sh";

constexpr const char* kZsh = R"sh(
_kvick() {
  local at=kvick option= word name
  local -a reply
  integer i
  for ((i = 2; i < CURRENT; ++i)); do
    word=${words[i]}
    if [[ -n $option ]]; then
      option=
    elif [[ $word == --*=* ]]; then
      continue
    elif [[ $word == -* ]]; then
      _kvick_value_of "$at" "$word"
      (( $#reply == 0 )) || option=$word
    else
      _kvick_commands_of "$at"
      for name in ${reply%%:*}; do
        [[ $name != $word ]] || { at+=" $word"; break }
      done
    fi
  done
  if [[ -z $option && $PREFIX == --*=* ]]; then
    option=${PREFIX%%=*}
    compset -P '*='
  fi
  if [[ -n $option ]]; then
    _kvick_value_of "$at" "$option"
  elif [[ $PREFIX == -* ]]; then
    _kvick_options_of "$at"
    _describe -o option reply
    return
  else
    _kvick_commands_of "$at"
    if (( $#reply )); then
      _describe command reply
      return
    fi
    _kvick_value_of "$at" ''
  fi
  for word in $reply; do
    case $word in
      @file) _files ;;
      @folder) _files -/ ;;
      @model) compadd -- $(_kvick_models); _files ;;
      @text) ;;
      *) compadd -- $word ;;
    esac
  done
}

# Zsh reads this file as the function _kvick when it lies in a folder of fpath.
if [[ $funcstack[1] == _kvick ]]; then
  _kvick "$@"
else
  compdef _kvick kvick
fi
)sh";

constexpr const char* kModels = R"sh(
_kvick_models() {
  kvick list 2>/dev/null | sed '1d; /not fetched/d; s/ .*//'
}
)sh";

constexpr const char* kFishModels = R"sh(
function __kvick_models
    kvick list 2>/dev/null | sed '1d; /not fetched/d; s/ .*//'
end

complete -c kvick -f
)sh";

std::string sh_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string{'\\', c} : std::string{c};
  return out + "'";
}

// Receives each command with its path ("kvick train distil") and its options, including those of
// the commands above it.
using Visit = std::function<void(const std::string& path, const CommandText& command,
                                 const std::vector<OptionText>& options)>;
void visit(const CommandText& command, const std::string& above, std::vector<OptionText> options,
           const Visit& take) {
  const std::string path = above.empty() ? command.name : above + " " + command.name;
  for (const OptionText& option : command.options) options.push_back(option);
  take(path, command, options);
  std::erase_if(options, [](const OptionText& one) {  // each command has its own --help
    return one.names.empty() || one.names.back() == "--help";
  });
  for (const CommandText& below : command.commands) visit(below, path, options, take);
}

std::vector<std::string> values_of(const OptionText& option) {
  std::vector<std::string> values = option.words;
  switch (option.kind) {
    case ValueKind::kFlag:
      return {};
    case ValueKind::kFile:
      values.emplace_back("@file");
      break;
    case ValueKind::kFolder:
      values.emplace_back("@folder");
      break;
    case ValueKind::kModel:
      values.emplace_back("@model");
      break;
    case ValueKind::kText:
      if (values.empty()) values.emplace_back("@text");
      break;
  }
  return values;
}

// Returns the shell function of one table, whose case lines are `rows`.
std::string table(const std::string& name, const char* word, const std::string& rows) {
  return fmt::format("\n_kvick_{}_of() {{\n  reply=()\n  case {} in\n{}  esac\n}}\n", name, word,
                     rows);
}

std::string row(const std::string& pattern, const std::vector<std::string>& words) {
  return fmt::format("    {}) reply=({}) ;;\n", pattern, fmt::join(words, " "));
}

std::string tables(const CommandText& program, bool described) {
  std::string commands, options, values;
  const auto entry = [&](const std::string& name, const std::string& help) {
    return sh_quoted(described ? name + ":" + brief(help, kBrief) : name);
  };
  visit(program, "", {}, [&](const std::string& path, const CommandText& command, const auto& all) {
    std::vector<std::string> below, names;
    for (const CommandText& one : command.commands) below.push_back(entry(one.name, one.summary));
    if (!below.empty()) commands += row(sh_quoted(path), below);
    for (const OptionText& option : all) {
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) {
        names.push_back(entry(name, option.help));
        patterns.push_back(sh_quoted(path + ":" + name));
      }
      if (!option.argument.empty()) patterns.push_back(sh_quoted(path + ":"));
      std::vector<std::string> words;
      for (const std::string& word : values_of(option)) words.push_back(sh_quoted(word));
      if (!words.empty()) values += row(fmt::format("{}", fmt::join(patterns, " | ")), words);
    }
    if (!names.empty()) options += row(sh_quoted(path), names);
  });
  return table("commands", "$1", commands) + table("options", "$1", options) +
         table("value", "\"$1:$2\"", values);
}

// Returns the arguments of `complete -c kvick` for one option.
std::string fish_option(const OptionText& option) {
  std::string line;
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  std::vector<std::string> words = option.words;
  if (option.kind == ValueKind::kModel) words.emplace_back("(__kvick_models)");
  if (option.kind == ValueKind::kFolder) words.emplace_back("(__fish_complete_directories)");
  const bool file = option.kind == ValueKind::kFile || option.kind == ValueKind::kModel;
  if (option.kind != ValueKind::kFlag && !option.names.empty()) line += file ? " -r" : " -x";
  if (file) line += " -F";
  if (!words.empty()) line += " -a " + fish_quoted(fmt::format("{}", fmt::join(words, " ")));
  return line + " -d " + fish_quoted(brief(option.help, kBrief));
}

std::string fish_script(const CommandText& program) {
  std::string paths, lines;
  visit(program, "", {}, [&](const std::string& path, const CommandText& command, const auto&) {
    const bool top = &command == &program;
    const std::string at = "complete -c kvick -n " + fish_quoted("__kvick_at " + fish_quoted(path));
    if (!top) paths += " " + fish_quoted(path);
    for (const CommandText& below : command.commands)
      lines += fmt::format("{} -a {} -d {}\n", at, below.name,
                           fish_quoted(brief(below.summary, kBrief)));
    for (const OptionText& option : command.options)
      lines += (top ? "complete -c kvick" : at) + fish_option(option) + "\n";
  });
  return fmt::format(
             "\n# Whether the words before the cursor name this command.\n"
             "function __kvick_at\n    set -l at kvick\n"
             "    for word in (commandline -opc)[2..-1]\n        switch \"$at $word\"\n"
             "            case{}\n                set at \"$at $word\"\n        end\n    end\n"
             "    test \"$at\" = \"$argv[1]\"\nend\n",
             paths.empty() ? " ''" : paths) +
         kFishModels + lines;
}

}  // namespace

std::string completion_script(const CommandText& program, Shell shell) {
  const char* origin = "# Completion for kvick, written by `kvick completion`.\n";
  switch (shell) {
    case Shell::kBash:
      return origin + tables(program, false) + kModels + kBash;
    case Shell::kZsh:
      return std::string("#compdef kvick\n") + origin + tables(program, true) + kModels + kZsh;
    case Shell::kFish:
      return origin + fish_script(program);
  }
  return {};
}

}  // namespace kvick::cli
