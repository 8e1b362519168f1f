#include "engine/core/service_state.h"

#include <algorithm>
#include <numeric>

namespace kvick::engine {

void Histogram::add(double seconds) {
  const auto at = std::lower_bound(kBounds.begin(), kBounds.end(), seconds);
  ++counts[static_cast<size_t>(at - kBounds.begin())];
  sum += seconds;
}

void Histogram::add(const Histogram& other) {
  for (size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  sum += other.sum;
}

void Metrics::add(const Metrics& other) {
  waiting += other.waiting;
  running += other.running;
  preempted += other.preempted;
  job_tokens += other.job_tokens;
  finished += other.finished;
  cancelled += other.cancelled;
  failed += other.failed;
  refused += other.refused;
  prompt_tokens += other.prompt_tokens;
  cached_tokens += other.cached_tokens;
  generated_tokens += other.generated_tokens;
  read_again_tokens += other.read_again_tokens;
  moved_tokens += other.moved_tokens;
  steps += other.steps;
  step_tokens += other.step_tokens;
  drafted += other.drafted;
  accepted += other.accepted;
  queue.add(other.queue);
  first_token.add(other.first_token);
  between_tokens.add(other.between_tokens);
  swaps += other.swaps;
  recomputations += other.recomputations;
  swapped_bytes += other.swapped_bytes;
  recomputed_tokens += other.recomputed_tokens;
  preemption_seconds += other.preemption_seconds;
  kv_limit_bytes = other.kv_limit_bytes;
  kv.add(other.kv);
  token_bytes = other.token_bytes;
  block_tokens = other.block_tokens;
  reuse_age.add(other.reuse_age);
  draft_bytes += other.draft_bytes;
  files = other.files;
  store = other.store;
  handovers.given += other.handovers.given;
  handovers.taken += other.handovers.taken;
  handovers.computed += other.handovers.computed;
  experts = other.experts;
  for (const auto& [policy, one] : other.checks) {
    checks[policy].count += one.count;
    checks[policy].lost_mass += one.lost_mass;
  }
}

uint64_t Histogram::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

std::string_view job_state_name(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return "waiting";
    case JobState::kPrompt:
      return "prompt";
    case JobState::kAnswer:
      return "answer";
    case JobState::kSwapped:
      return "swapped";
    case JobState::kEvicted:
      return "evicted";
  }
  return "unknown";
}

}  // namespace kvick::engine
