#pragma once
// Converts Ollama's messages to the form of chat templates.

#include "server/request/fields.h"

namespace kvick::server {

// Reads `list`, the value of `messages`. Thoughts are in `thinking`, arguments of calls are
// objects, and a result names its tool in `tool_name`. Calls and results without an id get one, by
// which templates match them. Errors: those of read_messages(), or images.
ApiResult<Json> read_ollama_messages(const Json& list, const Fields& request);

}  // namespace kvick::server
