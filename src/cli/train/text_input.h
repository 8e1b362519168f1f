#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "base/result.h"

namespace kvick::cli {

// The whole text of a file that a command reads.
inline base::Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return base::fail("cannot read {}", path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

}  // namespace kvick::cli
