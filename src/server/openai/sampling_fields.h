#pragma once
// The sampling options of a request, by the names of OpenAI, vLLM and llama-server.

#include "server/openai/generation_request.h"

namespace kvick::server {

// Reads the sampling, the seed and the bad words.
ApiStatus read_sampling(Fields& fields, GenerationRequest& request);

}  // namespace kvick::server
