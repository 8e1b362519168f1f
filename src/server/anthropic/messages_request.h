#pragma once
// Parses the body of POST /v1/messages into the equivalent chat request.

#include "server/openai/chat_request.h"

namespace kvick::server {

ApiResult<ChatRequest> parse_messages_request(const Json& body, UnknownFields& unknown);
// Parses the body of POST /v1/messages/count_tokens, which needs no max_tokens.
ApiResult<ChatRequest> parse_count_request(const Json& body, UnknownFields& unknown);

}  // namespace kvick::server
