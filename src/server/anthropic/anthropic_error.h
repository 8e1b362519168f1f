#pragma once
// An error of a request, in Anthropic's form: {"type": "error", "error": {"type", "message"},
// "request_id": null}.

#include "server/request/error.h"

namespace kvick::server {

Json anthropic_error_json(const ApiError& error);
// Returns a response with the error's status. Anthropic's clients retry 503 as they do Anthropic's
// own 529.
HttpResponse anthropic_error_response(const ApiError& error);

}  // namespace kvick::server
