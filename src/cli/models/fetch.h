#pragma once
// A model for a command that is about to run it: fetched first if it is named and not there.

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/models/pull.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

// A pull from the hub, with the token, that HF_ENDPOINT and HF_TOKEN name.
PullRequest pull_request(std::string_view reference, const std::filesystem::path& cache);

// find_model's path; what it does not find and `kvick pull` takes is pulled. Errors: those of both.
// Throws Failure as pull does.
base::Result<std::filesystem::path> find_or_fetch_model(std::string_view name, Progress& progress);

}  // namespace kvick::cli
