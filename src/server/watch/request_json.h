#pragma once
// What is known of requests as JSON: a line of the log, and /debug/requests.

#include <functional>
#include <span>

#include "engine/core/service_state.h"
#include "server/request/request_record.h"

namespace kvick::server {

// Of one that has ended; what does not apply is left out.
Json request_json(const RequestFacts& facts);

struct RequestLists {
  std::span<const RequestFacts> running, ended;
  // What a model's engines hold now; null: it is not in memory.
  std::function<const engine::CacheState*(const std::string& model)> cache;
  double now = 0;  // by the clock of the facts
};
Json requests_json(const RequestLists& lists);

}  // namespace kvick::server
