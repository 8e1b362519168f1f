#pragma once
// Names of the parts of a GGUF file that was split: model-00001-of-00003.gguf.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::io {

struct SplitName {
  std::string prefix;  // the path up to "-00001-of-00003.gguf"
  uint32_t part = 1;   // from 1
  uint32_t parts = 1;

  // The name of another part.
  std::string of(uint32_t part) const;
};

// nullopt if the name is not that of a part, or its part number is 0 or above the number of parts.
std::optional<SplitName> parse_split_name(std::string_view path);

// The paths of all parts in order if `path` is the first of several, else `path` alone.
std::vector<std::string> split_paths(const std::string& path);

}  // namespace kvick::io
