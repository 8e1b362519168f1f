#pragma once
// What the cache holds, as JSON: GET /kv.

#include <span>
#include <string>

#include "engine/core/service_state.h"
#include "server/request/json.h"

namespace kvick::server {

Json cache_json(const engine::CacheState& state);

// Of several models in one: stores say whose they are.
struct ModelCache {
  std::string model;
  engine::CacheState cache;
};
Json caches_json(std::span<const ModelCache> caches);

}  // namespace kvick::server
