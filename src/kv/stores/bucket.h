#pragma once
// Contiguous rows on the heap, grown by copying: one block per sequence and layer. BMC (section V)
// and the two schemes between which it lies (sections II-B and II-C) allocate this way; the
// strategies differ only in their Growth.
//
// With a window (Shape::window) a block grows until it has room for the window and one unit of
// rows. After that, when fresh rows do not fit behind the others, the visible rows move to the
// front of the block: once per unit_rows tokens. A step of more rows gets a larger block, and the
// next step a smaller one again.

#include "kv/stores/contiguous.h"

namespace kvick::kv {

struct Growth {
  uint32_t unit_rows = 1;      // capacity is a multiple of this, up to max_tokens
  bool at_every_step = false;  // false: grow only when the rows do not fit
  // With a window: upper bound on the unit, in rows.
  uint32_t most_spare_rows = UINT32_MAX;
};

// Spare rows are zero until first written, so a kernel may compute over the whole bucket.
std::unique_ptr<RowStore> make_bucket_store(const Setup& setup, const Growth& growth);

// Returns the cost of sequences that start empty and grow by load.step tokens per step. BMC's
// equation 1 charges a growth for writing the whole new bucket, (i+1) * r rows; copied_bytes counts
// only the i * r rows that are moved. With a window this simulates the load step by step.
Cost bucket_cost(const Setup& setup, const Growth& growth, const Load& load);

}  // namespace kvick::kv
