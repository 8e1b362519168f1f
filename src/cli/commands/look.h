#pragma once

#include <string>

#include "io/file/model_file.h"

namespace kvick::cli {

// A model to look at: whole if all of it is there, else whatever the file holds.
inline base::Result<io::ModelFile> look_at(const std::string& path) {
  auto whole = io::ModelFile::open(path);
  if (whole.ok()) return whole;
  return io::ModelFile::open_for_inspection(path);
}

}  // namespace kvick::cli
