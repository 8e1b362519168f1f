#pragma once
// Chooses the job to preempt when memory runs out.

#include <cstdint>
#include <optional>
#include <span>

namespace kvick::engine {

// What preempting a job frees, and what bringing it back costs.
struct Candidate {
  int32_t priority = 0;
  uint64_t freed_bytes = 0;
  double recompute_seconds = 0;
  std::optional<double> swap_seconds;  // to swap rows out and in; none: they cannot be moved

  double seconds() const {
    return swap_seconds && *swap_seconds < recompute_seconds ? *swap_seconds : recompute_seconds;
  }
};

// The job to preempt: among those of the lowest priority, the one that loses the fewest seconds per
// byte freed. None if no job would free anything.
std::optional<size_t> victim_of(std::span<const Candidate> candidates);

}  // namespace kvick::engine
