#pragma once
// Prompts of answers that stand between two texts.

#include <vector>

#include "engine/core/engine.h"
#include "server/openai/completion_request.h"

namespace kvick::server {

// The prompt is text, and the request has a suffix. Error: the model cannot fill in.
ApiResult<std::vector<engine::Token>> fill_in_tokens(const CompletionRequest& request,
                                                     const Prompt& prompt,
                                                     const engine::Engine& engine);

}  // namespace kvick::server
