#pragma once
// Lists the files of a repository on a Hugging Face hub, by the hub's API.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/models/hub_name.h"
#include "cli/models/pull.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {

// Returns the paths of the repository's files. Errors: no such repository, no access. Throws
// Failure for errors at run time and for a response that is not a list.
base::Result<std::vector<std::string>> list_hub_files(const PullRequest& request,
                                                      const HubName& name, Progress& progress);

// Returns the paths in the response to GET /api/models/owner/repo/revision/REVISION. Throws
// Failure.
std::vector<std::string> parse_hub_files(std::string_view json, std::string_view from);

}  // namespace kvick::cli
