#include "server/ops/client_limits.h"

#include <algorithm>

#include "kv/registry/policies.h"
#include "server/request/fields.h"

namespace kvick::server {
namespace {

using base::Done;
using kernels::DType;

std::string lower_name(DType type) {
  std::string name(kernels::dtype_info(type).name);
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

ApiError refused_kv(std::string_view what, std::string_view asked, std::string_view own) {
  return bad_field("kv",
                   "requests may not choose the {} {} here; the server's own is {}, and its "
                   "--client-kv allows others",
                   what, in_quotes(asked), own);
}

bool takes_no_more(DType type, DType own) {
  const kernels::DTypeInfo &a = kernels::dtype_info(type), &b = kernels::dtype_info(own);
  return uint64_t{a.block_bytes} * b.block <= uint64_t{b.block_bytes} * a.block;
}

// Both options are resolved (Engine::resolved).
bool may_choose_types(const engine::KvOptions& asked, const ClientLimits& limits,
                      const engine::KvOptions& own) {
  const std::string text = engine::kv_type_text(asked);
  if (text == engine::kv_type_text(own)) return true;
  if (asked.aging) return limits.kv_names.contains(text.substr(0, text.find(':')));
  const auto may = [&](DType type, DType most) {
    return limits.kv_names.contains(lower_name(type)) || takes_no_more(type, most);
  };
  return may(*asked.k_type, own.aging ? own.aging->k_type : *own.k_type) &&
         may(*asked.v_type, own.aging ? own.aging->v_type : *own.v_type);
}

// Ignores the policy's file, which a request cannot name.
std::string select_text(engine::KvOptions options) {
  options.select.options.erase("file");
  return engine::kv_select_text(options);
}

ApiStatus check_kv(const engine::KvOptions& asked, const ClientLimits& limits,
                   const engine::Engine& engine) {
  if (limits.any_kv) return Done{};
  const engine::KvOptions own = engine.resolved(limits.own_kv);
  const std::string strategy = kv::spec_text(asked.spec), own_strategy = kv::spec_text(own.spec);
  if (!asked.spec.name.empty() && strategy != own_strategy &&
      !limits.kv_names.contains(asked.spec.name))
    return refused_kv("cache strategy", strategy, own_strategy);
  engine::KvOptions types = asked;
  // As in the request's cache: which type of rows `auto` chooses depends on the type of states.
  if (!types.state_type) types.state_type = own.state_type;
  types = engine.resolved(types);
  types.state_type = own.state_type;  // compared below
  const bool named_auto = asked.automatic && limits.kv_names.contains("auto");
  if (asked.names_types() && !named_auto && !may_choose_types(types, limits, own))
    return refused_kv("cache type", engine::kv_type_text(types), engine::kv_type_text(own));
  if (asked.state_type && !takes_no_more(*asked.state_type, own.type_of_states()))
    return refused_kv("cache type", "state=f32", "state=bf16");
  const std::string select = select_text(asked), own_select = select_text(own);
  if (!asked.select.name.empty() && select != own_select &&
      !limits.kv_names.contains(asked.select.name))
    return refused_kv("policy", select, own_select);
  return Done{};
}

// Numbers of logprobs in an answer.
struct Reported {
  uint64_t of_prompts = 0, of_answers = 0;
};

Reported reported(const Plan& plan, uint32_t context) {
  Reported numbers;
  for (const engine::Job& job : plan.jobs) {
    if (!job.logprobs) continue;
    const uint64_t prompt = job.prompt.size();
    const uint64_t room = context - std::min<uint64_t>(prompt, context);
    const uint64_t answer = job.max_tokens == 0 ? room : std::min<uint64_t>(job.max_tokens, room);
    const uint64_t per_token = uint64_t{job.choices} * (1 + *job.logprobs);
    if (job.prompt_logprobs) numbers.of_prompts += prompt * per_token;
    // With prompt_logprobs alone, the answer's tokens are not reported.
    if (plan.logprobs) numbers.of_answers += answer * per_token;
  }
  return numbers;
}

ApiStatus too_many(const Reported& numbers, const Plan& plan) {
  const bool prompts = numbers.of_prompts > numbers.of_answers;
  const char* const field = plan.prompt_logprobs && prompts ? "prompt_logprobs" : "logprobs";
  const char* const shorten = prompts                             ? "shorten the prompt"
                              : plan.jobs.front().max_tokens == 0 ? "set max_tokens"
                                                                  : "lower max_tokens";
  return bad_field(field,
                   "this asks for up to {} logprobs (prompts x n x tokens x likeliest tokens), but "
                   "an answer has at most {}; {}, lower n or ask for fewer likeliest tokens",
                   numbers.of_prompts + numbers.of_answers, kMostReported, shorten);
}

ApiStatus check_size(const Plan& plan, uint32_t context) {
  const Reported numbers = reported(plan, context);
  if (numbers.of_prompts + numbers.of_answers > kMostReported) return too_many(numbers, plan);
  uint64_t echoed = 0;
  for (const std::string& text : plan.echo) echoed += text.size() * plan.choices;
  if (echoed > kMostEchoBytes)
    return bad_field("echo",
                     "echo would repeat {} bytes (n times the prompts), but at most {} are "
                     "allowed; lower n or leave echo out",
                     echoed, kMostEchoBytes);
  return Done{};
}

}  // namespace

base::Status<> read_client_kv(const std::vector<std::string>& names, ClientLimits& limits) {
  for (const std::string& name : names) {
    if (name == "own") continue;
    const bool known = kv::find_strategy(name) != nullptr || kv::find_policy(name) != nullptr ||
                       name == "none" || engine::parse_kv_options("", name).ok();
    if (name == "any")
      limits.any_kv = true;
    else if (!known || name.empty() || name.find_first_of(":=") != std::string::npos)
      return base::fail(
          "--client-kv {}: give names of strategies, types and policies without options, as paged, "
          "q8 or quest; own, or any",
          in_quotes(name));
    else
      limits.kv_names.insert(name);
  }
  return base::Done{};
}

ApiStatus check_limits(const Plan& plan, const ClientLimits& limits, const LimitContext& context) {
  const engine::Job& job = plan.jobs.front();  // jobs of a request differ only in prompt and seed
  if (job.priority > limits.max_priority)
    return bad_field("priority",
                     "priority is {}, but requests may have at most {} here, which the server's "
                     "--max-priority sets",
                     job.priority, limits.max_priority);
  if (job.kv) KVICK_TRY_VOID(check_kv(*job.kv, limits, context.engine));
  return check_size(plan, context.context);
}

}  // namespace kvick::server
