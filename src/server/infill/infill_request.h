#pragma once
// The bodies of llama-server's POST /infill, which fills in the text between two others, and of its
// POST /completion, which continues a text.

#include "server/openai/completion_request.h"

namespace kvick::server {

inline constexpr size_t kMostInfillFiles = 256;

// Returns whether n_predict is 0. Editors send that to have the prompt cached before they need an
// answer.
bool asks_for_no_text(const Json& body);

// Parses the body as a completion with one prompt and a suffix. If no text is requested, it asks
// for one token, because every job generates at least one.
ApiResult<CompletionRequest> parse_infill(const Json& body, UnknownFields& unknown);

// Parses the body of POST /completion, likewise without a suffix.
ApiResult<CompletionRequest> parse_llama_completion(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
