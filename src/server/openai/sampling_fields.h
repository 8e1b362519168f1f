#pragma once
// How a request wants its tokens to be chosen, by OpenAI's names, vLLM's and llama-server's.

#include "server/openai/generation_request.h"

namespace kvick::server {

// Reads the sampling, the seed and the bad words.
ApiStatus read_sampling(Fields& fields, GenerationRequest& request);

}  // namespace kvick::server
