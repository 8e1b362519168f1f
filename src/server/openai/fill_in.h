#pragma once
// Prompts for filling in the text between a prompt and a suffix.

#include <vector>

#include "engine/core/engine.h"
#include "server/openai/completion_request.h"

namespace kvick::server {

// Returns the tokens of such a prompt. `prompt` must be text, and the request must have a suffix.
// Error: the model has no fill-in tokens.
ApiResult<std::vector<engine::Token>> fill_in_tokens(const CompletionRequest& request,
                                                     const Prompt& prompt,
                                                     const engine::Engine& engine);

}  // namespace kvick::server
