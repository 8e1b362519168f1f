#pragma once
// How to generate, by Ollama's names and with its defaults.

#include "server/openai/generation_request.h"

namespace kvick::server {

// Reads the field `options`. context: the most tokens of a sequence here; a num_ctx that differs
// from it changes nothing and is an unknown field, as options are that this server does not have.
ApiStatus read_ollama_options(Fields& request, uint32_t context, GenerationRequest& generation);

}  // namespace kvick::server
