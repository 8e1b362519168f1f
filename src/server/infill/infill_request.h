#pragma once
// The body of POST /infill, llama-server's: a text that stands between two others.

#include "server/openai/completion_request.h"

namespace kvick::server {

inline constexpr size_t kMostInfillFiles = 256;

// Editors send n_predict 0, so that the prompt is in the cache before they want a text.
bool asks_for_no_text(const Json& body);

// As a completion with one prompt and a suffix; of one token where no text is asked for, since no
// job has none.
ApiResult<CompletionRequest> parse_infill(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
