#pragma once
// How often experts were found in memory, for models that keep only some of them there.

#include <cstdint>

namespace kvick::model {

struct ExpertStats {
  uint64_t limit_bytes = 0;     // limit for experts in memory
  uint64_t resident_bytes = 0;  // of the experts in memory now
  uint64_t all_bytes = 0;       // of all experts
  uint32_t resident = 0, all = 0;
  // Experts that a batch needed and found in memory (hits) or had to read (misses), counted once
  // per batch and layer.
  uint64_t hits = 0, misses = 0;
  uint64_t read_bytes = 0;  // including those read when the model was loaded
  // Share of the needed experts that were in memory; 1 before any was needed.
  double hit_rate() const {
    const auto both = static_cast<double>(hits + misses);
    return both > 0 ? static_cast<double>(hits) / both : 1;
  }
};

}  // namespace kvick::model
