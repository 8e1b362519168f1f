#pragma once
// What the cache holds, as JSON: GET /kv.

#include "engine/core/service_state.h"
#include "server/request/json.h"

namespace kvick::server {

Json cache_json(const engine::CacheState& state);

}  // namespace kvick::server
