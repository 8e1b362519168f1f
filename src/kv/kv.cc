#include "kv/kv.h"

#include <numeric>

namespace kvick::kv {

Kept Kept::all(const Batch& batch) {
  Kept kept;
  for (const Slot& slot : batch.slots) {
    kept.rows.emplace_back(slot.fresh);
    std::iota(kept.rows.back().begin(), kept.rows.back().end(), 0u);
  }
  return kept;
}

}  // namespace kvick::kv
