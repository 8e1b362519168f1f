#pragma once
// The tools of an Anthropic request, which its client runs.

#include "server/answer/tools.h"

namespace kvick::server {

// Reads tools and tool_choice. Tools with defer_loading are among the deferred ones. Error also for
// tools that Anthropic itself runs or defines: their schemas are not in the request.
ApiResult<Tools> read_client_tools(Fields& fields);

}  // namespace kvick::server
