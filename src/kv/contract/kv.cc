#include "kv/contract/kv.h"

#include <algorithm>
#include <numeric>

namespace kvick::kv {

Shape Shape::of_old_rows() const {
  Shape old = *this;
  old.k_type = aging->k_type;
  old.v_type = aging->v_type;
  old.max_tokens = std::max(kAgingRows, aging->old_rows(max_tokens));
  old.aging.reset();
  return old;
}

uint64_t Shape::used_bytes(uint32_t tokens) const {
  const uint32_t old = aging ? aging->old_rows(tokens) : 0;
  const uint64_t old_bytes = old > 0 ? old * of_old_rows().token_bytes() : 0;
  return old_bytes + (tokens - old) * token_bytes();
}

Kept Kept::all(const Batch& batch) {
  Kept kept;
  for (const Slot& slot : batch.slots) {
    kept.rows.emplace_back(slot.fresh);
    std::iota(kept.rows.back().begin(), kept.rows.back().end(), 0u);
  }
  return kept;
}

}  // namespace kvick::kv
