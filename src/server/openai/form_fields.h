#pragma once
// The form that a request requires of its answers, by the names of several servers.

#include "server/openai/generation_request.h"

namespace kvick::server {

// Reads OpenAI's response_format, llama-server's grammar and json_schema, vLLM's structured_outputs
// and older guided_* fields, and SGLang's regex and ebnf. At most one may be given. It goes into
// response_format in the form that answer_forms() reads; the form itself is not compiled yet.
ApiStatus read_form_fields(Fields& fields, GenerationRequest& request);

}  // namespace kvick::server
