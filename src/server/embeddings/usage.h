#pragma once

#include <cstdint>

#include "server/request/json.h"

namespace kvick::server {

// Returns the usage of an answer without generated tokens.
inline Json usage_json(uint64_t tokens) {
  return {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
}

}  // namespace kvick::server
