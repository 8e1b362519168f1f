#pragma once
// The tools of an Anthropic request that the client runs.

#include "server/answer/tools.h"

namespace kvick::server {

// Reads tools and tool_choice. Tools with defer_loading go into Tools::deferred. Also an error:
// tools that Anthropic itself runs or defines, because the request lacks their schemas.
ApiResult<Tools> read_client_tools(Fields& fields);

}  // namespace kvick::server
