#pragma once
// The contents of the cache as JSON: GET /kv.

#include <span>
#include <string>

#include "engine/core/service_state.h"
#include "server/request/json.h"

namespace kvick::server {

Json cache_json(const engine::CacheState& state);

// The same for several models in one list; each store names its model.
struct ModelCache {
  std::string model;
  engine::CacheState cache;
};
Json caches_json(std::span<const ModelCache> caches);

}  // namespace kvick::server
