#pragma once
// What a request may ask for at the cost of others. Whoever starts the server may allow more.

#include <set>
#include <string>
#include <vector>

#include "engine/options/kv_options.h"
#include "server/openai/plan.h"
#include "server/request/error.h"

namespace kvick::server {

// Numbers of logprobs in one answer, and bytes of prompts that it repeats: some 200 MB of JSON.
inline constexpr uint64_t kMostReported = uint64_t{2} << 20;
inline constexpr uint64_t kMostEchoBytes = uint64_t{32} << 20;

struct ClientLimits {
  int32_t max_priority = 0;  // a request may put itself behind others, but not before them
  engine::KvOptions own_kv;  // how the server keeps keys and values
  // A request may always choose own_kv's strategy and policy, and element types that take no more
  // memory than own_kv's. Further it may choose strategies, policies and types with these names,
  // whatever their options, or any.
  std::set<std::string> kv_names;
  bool any_kv = false;
};

// Sets kv_names and any_kv by a list of names, "any" and "own", which adds nothing. Error: what is
// none of these.
base::Status<> read_client_kv(const std::vector<std::string>& names, ClientLimits& limits);

struct LimitContext {
  const engine::Engine& engine;
  uint32_t context;  // tokens of a sequence
};
// Errors: status 400, with what the limit is and who can change it.
ApiStatus check_limits(const Plan& plan, const ClientLimits& limits, const LimitContext& context);

}  // namespace kvick::server
