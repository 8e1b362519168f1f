#pragma once
// Functions within a namespace, as Codex CLI sends those of its agents and of MCP servers. Chat
// templates know none, so the model gets the function by one name made of both.

#include <map>
#include <string>
#include <string_view>

namespace kvick::server {

struct NameInNamespace {
  std::string space, name;
};
// By the name that the model gets.
using Namespaces = std::map<std::string, NameInNamespace>;

// "files__read" of "read" in "files" or in "files__".
inline std::string name_in(std::string_view space, std::string_view name) {
  std::string both(space);
  if (!space.ends_with("__")) both += "__";
  return both.append(name);
}

}  // namespace kvick::server
