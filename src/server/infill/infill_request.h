#pragma once
// The body of POST /infill, llama-server's: a text that stands between two others.

#include "server/openai/completion_request.h"

namespace kvick::server {

inline constexpr size_t kMostInfillFiles = 256;

// As a completion with one prompt and a suffix.
ApiResult<CompletionRequest> parse_infill(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
