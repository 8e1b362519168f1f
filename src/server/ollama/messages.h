#pragma once
// Ollama's messages as chat templates take them.

#include "server/request/fields.h"

namespace kvick::server {

// list: the value of the field `messages`. Thoughts come in `thinking`, the arguments of calls are
// objects, and a result names its tool in `tool_name`. Calls and results without an id get one, by
// which templates join them. Error: what read_messages() finds wrong, or images.
ApiResult<Json> read_ollama_messages(const Json& list, const Fields& request);

}  // namespace kvick::server
