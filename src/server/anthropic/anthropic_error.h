#pragma once
// What goes wrong with a request, in Anthropic's form: {"type": "error", "error": {"type",
// "message"}, "request_id": null}.

#include "server/request/error.h"

namespace kvick::server {

Json anthropic_error_json(const ApiError& error);
// The status is the error's: Anthropic's clients try 503 again as they do its own 529.
HttpResponse anthropic_error_response(const ApiError& error);

}  // namespace kvick::server
