#pragma once
// Names of the parts of a split GGUF file: model-00001-of-00003.gguf.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::io {

struct SplitName {
  std::string prefix;  // the path up to "-00001-of-00003.gguf"
  uint32_t part = 1;   // counts from 1
  uint32_t parts = 1;

  // Returns the name of another part.
  std::string of(uint32_t part) const;
};

// Parses a path. nullopt: it is not that of a part, or its part number is 0 or above `parts`.
std::optional<SplitName> parse_split_name(std::string_view path);

// Returns the paths of all parts in order if `path` is the first of several, else `path` alone.
std::vector<std::string> split_paths(const std::string& path);

}  // namespace kvick::io
