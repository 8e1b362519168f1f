#include <algorithm>
#include <numeric>

#include "kv/values/batch.h"
#include "kv/values/layer_spec.h"
#include "kv/values/shape.h"

namespace kvick::kv {

Shape Shape::of_old_rows() const {
  Shape old = *this;
  old.k_type = aging->k_type;
  old.v_type = aging->v_type;
  old.max_tokens = std::max(kAgingRows, aging->old_rows(max_tokens));
  old.aging.reset();
  // At least aging->window recent rows follow the last old row, so a query sees that many fewer old
  // rows. The recent rows decide where a chunk begins; a sliding window of the chunk's size covers
  // all old rows that the chunk shows.
  if (window > 0) old.window = window > aging->window ? window - aging->window : 1;
  // Keys that are stored in groups are read in whole groups, and a window may begin within one.
  if (window > 0) old.window += kernels::rows_together(aging->k_type) - 1;
  old.chunked = false;
  return old;
}

uint64_t Shape::used_bytes(uint32_t tokens) const {
  if (state_bytes != 0) return tokens == 0 ? 0 : layers * state_bytes;
  const uint32_t first = first_seen(tokens);
  const uint32_t old = std::max(first, aging ? aging->old_rows(tokens) : 0);
  const uint64_t old_bytes = old > first ? (old - first) * of_old_rows().token_bytes() : 0;
  return old_bytes + (tokens - old) * token_bytes();
}

std::vector<LayerGroup> groups_of(std::span<const LayerSpec> layers) {
  std::vector<LayerGroup> groups;
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    if (layers[layer].keeps == LayerSpec::Keeps::kNothing) continue;
    const auto alike = std::find_if(groups.begin(), groups.end(), [&](const LayerGroup& group) {
      return group.spec == layers[layer];
    });
    LayerGroup& group =
        alike != groups.end() ? *alike : groups.emplace_back(LayerGroup{.spec = layers[layer]});
    group.layers.push_back(layer);
  }
  return groups;
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
