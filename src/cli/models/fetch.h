#pragma once
// Finds the model of a command that will run it, fetching it first if it is named but not in the
// cache.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/models/pull.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

// Returns a request to pull from the hub of HF_ENDPOINT with the token of HF_TOKEN.
PullRequest pull_request(std::string_view reference, const std::filesystem::path& cache);

// Returns find_model's path. If the model is not found and `kvick pull` takes the name, pulls it
// first. Errors: those of both. Throws Failure as pull does.
base::Result<std::filesystem::path> find_or_fetch_model(std::string_view name, Progress& progress);

}  // namespace kvick::cli
