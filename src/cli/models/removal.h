#pragma once
// Taking a model out of the cache.

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

bool is_in_cache(const std::filesystem::path& path, const std::filesystem::path& cache);

struct Removal {
  std::filesystem::path model;               // as resolve_model found it
  std::vector<std::filesystem::path> files;  // the model's own, all parts of a split one
  uint64_t bytes = 0;                        // of them
};

// What removing the model would delete. Errors: those of resolve_model; a model that is not in the
// cache, which is the user's own file.
base::Result<Removal> plan_removal(std::string_view name, const std::filesystem::path& cache);

// Deletes the files, what kvick noted about them, and folders of the cache that are empty then.
// Error: a file that the system does not let go.
base::Status<> remove_model(const Removal& removal, const std::filesystem::path& cache);

}  // namespace kvick::cli
