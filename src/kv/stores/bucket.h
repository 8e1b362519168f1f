#pragma once
// Contiguous rows on the heap, grown by copying: one block per sequence and layer, as BMC (section
// V) and the two schemes that it lies between (sections II-B and II-C) allocate them. Strategies
// differ in one number.
//
// With a window (Shape::window) a block grows until it has room for the window and one unit of
// rows: from then on, when fresh rows do not fit behind the others, those that are still seen move
// to the front of it, which is once in unit_rows tokens. A step of more rows gets a larger block,
// and the next one a smaller one again.

#include "kv/stores/contiguous.h"

namespace kvick::kv {

struct Growth {
  uint32_t unit_rows = 1;      // capacity is a multiple of it, but never more than max_tokens
  bool at_every_step = false;  // else only when the rows do not fit
  // Upper bound on the unit, in rows, with a window.
  uint32_t most_spare_rows = UINT32_MAX;
};

// Rows of spare capacity are zero until first written, so that a kernel may compute over the whole
// bucket.
std::unique_ptr<RowStore> make_bucket_store(const Setup& setup, const Growth& growth);

// Of sequences that start empty and grow by the load's tokens a step. BMC's equation 1 charges a
// growth with writing the whole new bucket, (i+1) * r rows; copied_bytes counts the i * r rows that
// are moved. With a window a step of the load at a time is looked at.
Cost bucket_cost(const Setup& setup, const Growth& growth, const Load& load);

}  // namespace kvick::kv
