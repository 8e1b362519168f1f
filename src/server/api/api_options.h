#pragma once
// How a server answers, whatever it is asked.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "engine/answer/pool.h"
#include "server/openai/plan.h"
#include "server/ops/api_keys.h"
#include "server/ops/client_counts.h"
#include "server/ops/client_limits.h"
#include "server/watch/request_book.h"

namespace kvick::server {

// GET /get_load: a list whose token counts the SGLang gateway sums, or one number (vLLM's router).
enum class LoadForm { kSglang, kVllm };

struct ApiOptions {
  // Model, constraint and limits are of the one model: those of a ModelHost have their own.
  std::string model = {};      // the id that clients see
  bool any_model = false;      // requests may name any other; the first one answers them
  bool strict_fields = false;  // unknown fields are refused, not ignored
  bool stop_loops = false;     // an answer that repeats itself ends, unless its request says no
  LoadForm load_form = LoadForm::kSglang;
  ApiKeys keys;
  MakeConstraint constraint = {};
  std::function<uint64_t()> random;    // of seeds and ids; called by one thread at a time
  std::function<int64_t()> unix_time;  // seconds since 1970
  // Seconds, never back; called on several threads.
  std::function<double()> clock = base::steady_seconds;
  // Told, in one sentence, what of the server itself broke on a request, and which unknown fields
  // requests have.
  std::function<void(const std::string&)> report;
  ClientLimits limits = {};
  ClientCountLimits counts = {};
  std::optional<engine::Pooling> pooling = {};  // of embeddings; none: as the model's file says
  size_t response_store_bytes = 64 << 20;       // 0: no responses are kept
  std::shared_ptr<RequestBook> book = {};       // of the requests; null: nobody looks at them
  bool debug = false;                           // GET /debug/requests shows it
};

}  // namespace kvick::server
