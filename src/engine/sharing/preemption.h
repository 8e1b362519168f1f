#pragma once
// Which job gives way when memory runs out, and what that costs.

#include <cstdint>
#include <optional>
#include <span>

namespace kvick::engine {

// What a job would free, and what it takes to bring it back.
struct Candidate {
  int32_t priority = 0;
  uint64_t freed_bytes = 0;
  double recompute_seconds = 0;
  std::optional<double> swap_seconds;  // out and in again; none: it cannot be moved

  double seconds() const {
    return swap_seconds && *swap_seconds < recompute_seconds ? *swap_seconds : recompute_seconds;
  }
};

// The job to preempt: among those of the lowest priority, the one that loses the fewest seconds per
// byte freed. None if no job would free anything.
std::optional<size_t> victim_of(std::span<const Candidate> candidates);

}  // namespace kvick::engine
