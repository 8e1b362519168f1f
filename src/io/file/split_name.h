#pragma once
// Names of the parts of a GGUF file that was split: model-00001-of-00003.gguf.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::io {

struct SplitName {
  std::string prefix;  // all that stands before "-00001-of-00003.gguf", folders included
  uint32_t part = 1;   // from 1
  uint32_t parts = 1;

  // The name of another part.
  std::string of(uint32_t part) const;
};

// Nothing if the name is not one of a part, or of a part that cannot be: 0, or more than there are.
std::optional<SplitName> parse_split_name(std::string_view path);

// The paths of all parts in order if `path` is the first of several, else `path` alone.
std::vector<std::string> split_paths(const std::string& path);

}  // namespace kvick::io
