#pragma once
// Limits on what a request may use at the expense of others. The operator can raise them.

#include <set>
#include <string>
#include <vector>

#include "engine/options/kv_options.h"
#include "server/openai/plan.h"
#include "server/request/error.h"

namespace kvick::server {

// kMostReported: logprobs in one answer. kMostEchoBytes: bytes of prompts that one answer repeats.
// Together about 200 MB of JSON.
inline constexpr uint64_t kMostReported = uint64_t{2} << 20;
inline constexpr uint64_t kMostEchoBytes = uint64_t{32} << 20;

struct ClientLimits {
  int32_t max_priority = 0;  // requests may lower their priority, but raise it only to this
  engine::KvOptions own_kv;  // the server's own options for keys and values
  // A request may always choose own_kv's strategy and policy, and element types that take no more
  // memory than own_kv's. It may also choose strategies, policies and types with these names, with
  // any options; or, if any_kv is set, all of them.
  std::set<std::string> kv_names;
  bool any_kv = false;
};

// Sets kv_names and any_kv from a list of names, "any" and "own", which adds nothing. Error: an
// unknown name.
base::Status<> read_client_kv(const std::vector<std::string>& names, ClientLimits& limits);

struct LimitContext {
  const engine::Engine& engine;
  uint32_t context;  // limit on the tokens of a sequence
};
// Error: status 400, with the limit and the option that changes it.
ApiStatus check_limits(const Plan& plan, const ClientLimits& limits, const LimitContext& context);

}  // namespace kvick::server
