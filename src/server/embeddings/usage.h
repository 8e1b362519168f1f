#pragma once

#include <cstdint>

#include "server/request/json.h"

namespace kvick::server {

// Of an answer to which no token was generated.
inline Json usage_json(uint64_t tokens) {
  return {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
}

}  // namespace kvick::server
