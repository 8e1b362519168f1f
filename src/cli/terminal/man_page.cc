#include "cli/terminal/man_page.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <sstream>
#include <vector>

namespace kvick::cli {
namespace {

using Path = std::span<const CommandText* const>;

// Returns whether the word around position `at` is too long for one line.
bool in_long_word(const std::string& text, size_t at) {
  constexpr size_t kLong = 40;
  const size_t begin = text.find_last_of(" \n", at) + 1;  // npos + 1 is 0
  return std::min(text.find_first_of(" \n", at), text.size()) - begin > kLong;
}

// Escapes text for roff. A dash becomes a minus sign, which can be searched for and copied.
std::string roff(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) switch (const char c = text[i]) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '~':
        out += "\\(ti";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '"':
        out += "\\(dq";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case ',':
        out += in_long_word(text, i) ? ",\\:" : ",";
        break;
      default:
        out += c;
    }
  // A line that begins with a dot would be a roff request.
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string command_line(Path path) {
  std::string line;
  for (const CommandText* command : path) line += (line.empty() ? "" : " ") + command->name;
  return line;
}

// Formats a help text: paragraphs, and lists of indented lines that begin with a name.
std::string paragraphs(const std::string& text) {
  std::string out;
  bool list = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(' ');
    if (begin == line.npos) continue;
    const bool entry = begin > 0;
    if (entry != list) out += entry ? ".RS\n" : ".RE\n";
    list = entry;
    line = line.substr(begin);
    const size_t end = line.find(' ');
    if (!entry) {
      out += (out.empty() ? "" : ".br\n") + roff(line) + "\n";
    } else if (end == line.npos || line.ends_with(':')) {
      out += ".TP\n" + roff(line) + "\n";
    } else {
      const std::string rest = line.substr(std::min(line.find_first_not_of(' ', end), line.size()));
      out += ".TP\n.B " + roff(line.substr(0, end)) + "\n" + roff(rest) + "\n";
    }
  }
  return list ? out + ".RE\n" : out;
}

std::string option_head(const OptionText& option) {
  std::string head;
  for (const std::string& name : option.names)
    head += (head.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
  if (option.names.empty()) return "\\fI" + roff(upper(option.argument)) + "\\fR";
  if (option.value.empty()) return head;
  return head + " \\fI" + roff(option.value) + "\\fR" + (option.several ? " ..." : "");
}

std::string option_entry(const OptionText& option) {
  std::string help = option.help;
  std::string behind;
  if (!option.fallback.empty()) behind = fmt::format(" (default: {})", option.fallback);
  if (option.required && !option.names.empty()) behind += " (required)";
  help.insert(std::min(help.find('\n'), help.size()), behind);
  return ".TP\n" + option_head(option) + "\n" + paragraphs(help);
}

std::string synopsis(Path path) {
  const CommandText& command = *path.back();
  std::string text = ".SH SYNOPSIS\n.B " + roff(command_line(path)) + "\n[\\fIOPTIONS\\fR]";
  for (const OptionText& option : command.options) {
    if (!option.names.empty()) continue;
    const std::string name = "\\fI" + roff(upper(option.argument)) + "\\fR";
    text += (option.required ? " " + name : " [" + name + "]") + (option.several ? " ..." : "");
  }
  return text + (command.commands.empty() ? "\n" : " \\fICOMMAND\\fR\n");
}

std::string options_section(const CommandText& command) {
  std::string text;
  std::vector<std::string> groups;
  for (const OptionText& option : command.options)
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  for (const std::string& group : groups) {
    if (groups.size() > 1) text += ".SS " + roff(group) + "\n";
    for (const OptionText& option : command.options)
      if (option.group == group) text += option_entry(option);
  }
  return text.empty() ? text : ".SH OPTIONS\n" + text;
}

std::string commands_section(Path path) {
  std::string text;
  for (const CommandText& below : path.back()->commands) {
    std::vector<const CommandText*> longer(path.begin(), path.end());
    longer.push_back(&below);
    text += fmt::format(".TP\n\\fB{}\\fR\n{} (see \\fB{}\\fR(1))\n", roff(below.name),
                        roff(brief(below.summary, below.summary.size())), roff(page_name(longer)));
  }
  return text.empty() ? text : ".SH COMMANDS\n" + text;
}

}  // namespace

std::string page_name(Path path) {
  std::string name = command_line(path);
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string man_page(Path path, const std::string& version) {
  const CommandText& command = *path.back();
  const std::string name = page_name(path), summary = command.summary;
  std::string text = fmt::format(".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n",
                                 roff(upper(name)), roff(version), roff(name),
                                 roff(brief(summary, summary.size())));
  text += synopsis(path);
  text += ".SH DESCRIPTION\n" + paragraphs(summary);
  text += commands_section(path);
  text += options_section(command);
  if (!command.footer.empty()) text += ".SH NOTES\n" + paragraphs(command.footer);
  text +=
      ".SH EXIT STATUS\n0 on success, 2 after a mistake in the command line or its input, 1 after "
      "a "
      "failure.\n";
  if (path.size() > 1)
    text += fmt::format(".SH SEE ALSO\n\\fB{}\\fR(1), which has the options of all commands.\n",
                        roff(page_name(path.first(path.size() - 1))));
  return text;
}

}  // namespace kvick::cli
