#pragma once
// The form that a request asks of its answers, by the names of several servers.

#include "server/openai/generation_request.h"

namespace kvick::server {

// OpenAI's response_format; llama-server's grammar; vLLM's guided_json and its kin, and
// structured_outputs; SGLang's regex and ebnf. One of them at most is taken, into response_format
// as answer_forms() reads it; forms themselves are not read yet.
ApiStatus read_form_fields(Fields& fields, GenerationRequest& request);

}  // namespace kvick::server
