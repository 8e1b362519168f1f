#pragma once
// Options of the API that apply to all requests.

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

// The form of GET /get_load: a list whose token counts the SGLang gateway sums, or one number
// (vLLM's router).
enum class LoadForm { kSglang, kVllm };

struct ApiOptions {
  // model, constraint and limits are for a server with one model; the models of a ModelHost have
  // their own.
  std::string model = {};      // the model's id for clients
  bool any_model = false;      // unknown model names are accepted; the first model answers
  bool strict_fields = false;  // unknown fields are refused instead of ignored
  uint32_t max_sequences = 0;  // of one model at once, as GET /props reports it; 0: not reported
  bool stop_loops = false;     // ends answers that repeat themselves, unless the request says no
  LoadForm load_form = LoadForm::kSglang;
  ApiKeys keys;
  MakeConstraint constraint = {};
  std::function<uint64_t()> random;    // for seeds and ids; called on one thread at a time
  std::function<int64_t()> unix_time;  // seconds since 1970
  // Seconds, monotonic; called on several threads.
  std::function<double()> clock = base::steady_seconds;
  // Called with one sentence about an exception that a request caused, and about unknown fields of
  // requests.
  std::function<void(const std::string&)> report;
  ClientLimits limits = {};
  ClientCountLimits counts = {};
  std::optional<engine::Pooling> pooling = {};  // for embeddings; none: as the model's file says
  size_t response_store_bytes = 64 << 20;       // 0: responses are not kept
  std::shared_ptr<RequestBook> book = {};       // book of the requests; null: none
  bool debug = false;                           // GET /debug/requests shows the book
};

}  // namespace kvick::server
