#pragma once
// The options of generation, by Ollama's names and with its defaults.

#include "server/openai/generation_request.h"

namespace kvick::server {

// Reads the field `options`. context: limit on the tokens of a sequence. A different num_ctx has no
// effect and counts as an unknown field, like unknown options.
ApiStatus read_ollama_options(Fields& request, uint32_t context, GenerationRequest& generation);

}  // namespace kvick::server
