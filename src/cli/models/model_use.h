#pragma once
// When a model of the cache was used last. A file .NAME.used beside the model has that as its
// modification time: the model's own access time changes whenever anything reads it.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace kvick::cli {

// The file that has it.
std::filesystem::path use_mark(const std::filesystem::path& model);

// Notes that it is used now, if it is in the cache. A cache that cannot be written to is left as it
// is: the model runs all the same.
void mark_used(const std::filesystem::path& model, const std::filesystem::path& cache);

// Seconds since 1970; nothing if it never was.
std::optional<int64_t> last_used(const std::filesystem::path& model);

}  // namespace kvick::cli
