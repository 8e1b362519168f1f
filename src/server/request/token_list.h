#pragma once
// Lists of token ids in requests.

#include <string>
#include <vector>

#include "engine/core/engine.h"
#include "server/request/error.h"

namespace kvick::server {

// Reads an array of token ids, none negative. name: the field's name in errors.
ApiResult<std::vector<engine::Token>> read_tokens(const Json& list, const std::string& name);

}  // namespace kvick::server
