#pragma once
// Records when a model of the cache was last used: the modification time of a file .NAME.used
// beside the model. The model's own access time would change whenever any program reads it.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kvick::cli {

// Returns the path of the model's .used file.
std::filesystem::path use_mark(const std::filesystem::path& model);

// Records that the model is used now, if it is in the cache. A cache that cannot be written is no
// error: the model runs all the same.
void mark_used(const std::filesystem::path& model, const std::filesystem::path& cache);

// Returns seconds since 1970; nothing if the model was never used.
std::optional<int64_t> last_used(const std::filesystem::path& model);

}  // namespace kvick::cli
