#pragma once
// The model cache: ${XDG_CACHE_HOME:-~/.cache}/kvick/models.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::cli {

// Returns the cache's folder, which need not exist. Errors: neither XDG_CACHE_HOME nor HOME is set.
base::Result<std::filesystem::path> models_dir();

// Returns the folder of packed weights, ${XDG_CACHE_HOME:-~/.cache}/kvick/packed. Same errors.
base::Result<std::filesystem::path> packed_dir();

// Returns the path of a model's file or folder for an argument of -m:
//   nothing                             the default model, from the cache
//   a path that exists                  itself
//   a known name (smollm2)              from the cache
//   what was given to `kvick pull`      from the cache; hf:owner/repo[:TYPE] chooses among the
//                                       files there (choose_hub_files)
//   a cached file's name, whole or      from the cache, if exactly one has it
//   without .gguf
// Errors list what is in the cache and say what to pull.
base::Result<std::filesystem::path> resolve_model(std::string_view name,
                                                  const std::filesystem::path& cache);

// Like resolve_model, but takes only names in the cache, even if a file of that name exists in the
// working directory.
base::Result<std::filesystem::path> resolve_cached(std::string_view name,
                                                   const std::filesystem::path& cache);

// Calls resolve_model with the user's own cache. A path that exists needs no cache.
base::Result<std::filesystem::path> find_model(std::string_view name);

// Returns whether `kvick pull` takes the name: a short one, hf:... or a URL.
bool can_be_fetched(std::string_view name);

// Returns whether the text names a model, which need not exist: a name that `kvick pull` takes, a
// word that ends with .gguf, a file written with its folder, a Hugging Face folder, or a file or
// folder in the cache.
bool names_model(std::string_view name);

// Returns the short name or the name in the cache that was probably meant by a word; empty if there
// is none.
std::string likely_model(std::string_view word);

// Returns the models in the cache, sorted, each as a name that resolve_model takes.
std::vector<std::string> cached_models(const std::filesystem::path& cache);

}  // namespace kvick::cli
