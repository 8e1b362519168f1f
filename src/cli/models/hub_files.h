#pragma once
// What a repository on a Hugging Face hub holds, as the hub's API says.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/models/hub_name.h"
#include "cli/models/pull.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

// The paths of the repository's files. Errors: no such repository, no access. Throws Failure for
// what goes wrong at run time, and for an answer that is no list.
base::Result<std::vector<std::string>> list_hub_files(const PullRequest& request,
                                                      const HubName& name, Progress& progress);

// The paths in the answer of GET /api/models/owner/repo/revision/REVISION. Throws Failure.
std::vector<std::string> parse_hub_files(std::string_view json, std::string_view from);

}  // namespace kvick::cli
