#pragma once
// Deletes a model from the cache.

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

bool is_in_cache(const std::filesystem::path& path, const std::filesystem::path& cache);

struct Removal {
  std::filesystem::path model;               // as resolve_model found it
  std::vector<std::filesystem::path> files;  // its files, with all parts of a split one
  uint64_t bytes = 0;                        // of all files
};

// Returns what removing the model would delete. Errors: those of resolve_model; a model outside the
// cache, which is the user's own file.
base::Result<Removal> plan_removal(std::string_view name, const std::filesystem::path& cache);

// Deletes the files, the record of their use, and folders of the cache that become empty. Error: a
// file that the system cannot delete.
base::Status<> remove_model(const Removal& removal, const std::filesystem::path& cache);

}  // namespace kvick::cli
