#pragma once
// How experts of which only some are in memory were found there.

#include <cstdint>

namespace kvick::model {

struct ExpertStats {
  uint64_t limit_bytes = 0;     // that they may take
  uint64_t resident_bytes = 0;  // that they take now
  uint64_t all_bytes = 0;       // that all would
  uint32_t resident = 0, all = 0;
  // Of experts that a batch needed, counted once for each batch and layer: in memory, or read.
  uint64_t hits = 0, misses = 0;
  uint64_t read_bytes = 0;  // with those that were read at the start
  // Of those needed; 1 before there were any.
  double hit_rate() const {
    const auto both = static_cast<double>(hits + misses);
    return both > 0 ? static_cast<double>(hits) / both : 1;
  }
};

}  // namespace kvick::model
