#include "cli/terminal/command_text.h"

#include <algorithm>
#include <sstream>

namespace kvick::cli {

std::vector<const CommandText*> find_command(const CommandText& program,
                                             std::span<const std::string> names) {
  std::vector<const CommandText*> path = {&program};
  for (const std::string& name : names) {
    const std::vector<CommandText>& commands = path.back()->commands;
    const auto found = std::find_if(commands.begin(), commands.end(),
                                    [&](const CommandText& one) { return one.name == name; });
    if (found == commands.end()) return {};
    path.push_back(&*found);
  }
  return path;
}

std::string brief(const std::string& text, size_t most) {
  const std::string line = text.substr(0, text.find('\n'));
  if (line.size() <= most) return line;
  const size_t end = line.rfind(' ', most);
  return line.substr(0, end == line.npos ? most : end) + " ...";
}

std::vector<std::string> listed_names(const std::string& help) {
  std::vector<std::string> names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const bool entry = line.starts_with("  ") && line.size() > 2 && line[2] != ' ';
    if (!entry || line.ends_with(':')) continue;
    names.push_back(line.substr(2, line.find_first_of(" :", 2) - 2));
  }
  return names;
}

}  // namespace kvick::cli
