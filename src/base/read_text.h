#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "base/result.h"

namespace kvick::base {

// The whole text of a file.
inline Result<std::string> read_text(const std::string& path) {
  std::error_code none;
  // A folder can be opened, and throws when it is read.
  if (std::filesystem::is_directory(path, none))
    return fail("cannot read {}: it is a folder", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read {}", path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace kvick::base
