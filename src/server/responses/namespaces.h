#pragma once
// Functions in namespaces, as Codex CLI sends those of its agents and of MCP servers. Chat
// templates have no namespaces, so the model sees one name built from both.

#include <map>
#include <string>
#include <string_view>

namespace kvick::server {

struct NameInNamespace {
  std::string space, name;
};
// Key: the name that the model sees.
using Namespaces = std::map<std::string, NameInNamespace>;

// Returns "files__read" for "read" in "files" or in "files__".
inline std::string name_in(std::string_view space, std::string_view name) {
  std::string both(space);
  if (!space.ends_with("__")) both += "__";
  return both.append(name);
}

}  // namespace kvick::server
