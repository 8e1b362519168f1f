#pragma once

#include <string>

#include "io/file/model_file.h"

namespace kvick::cli {

// Opens a model for inspection: the whole model, or the one file if parts of it are missing.
inline base::Result<io::ModelFile> look_at(const std::string& path) {
  auto whole = io::ModelFile::open(path);
  if (whole.ok()) return whole;
  return io::ModelFile::open_for_inspection(path);
}

}  // namespace kvick::cli
