#pragma once
// Requests as JSON, for log lines and /debug/requests.

#include <functional>
#include <span>

#include "engine/core/service_state.h"
#include "server/request/request_record.h"

namespace kvick::server {

// Returns an ended request as JSON, without the fields that do not apply.
Json request_json(const RequestFacts& facts);

struct RequestLists {
  std::span<const RequestFacts> running, ended;
  // Returns the state of a model's engines; null: the model is not loaded.
  std::function<const engine::CacheState*(const std::string& model)> cache;
  double now = 0;  // seconds of the clock of the facts
};
Json requests_json(const RequestLists& lists);

}  // namespace kvick::server
