#include "kv/strategy/checked_step.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "kv/strategy/checked_store.h"

namespace kvick::kv {

CheckedStep::CheckedStep(CheckedStore& store, std::vector<StepSlot> step_slots)
    : store_(store),
      step_slots_(std::move(step_slots)),
      written_(store.shape().layers),
      pieces_(store.shape().layers) {}

CheckedStep::~CheckedStep() {
  if (store_.live_ != this) return;
  store_.live_ = nullptr;
  store_.settle();
}

void CheckedStep::write(uint32_t layer, const float* k, const float* v) {
  check_layer(layer);
  KVICK_CHECK(!was_written(layer), "layer {} is written twice", layer);
  write_rows(layer, k, v);
  mark_written(layer);
}

void CheckedStep::mark_piece(uint32_t layer, uint32_t first, uint32_t count) {
  check_layer(layer);
  KVICK_CHECK(written_[layer] == (first > 0) && first == pieces_[layer] && count > 0 &&
                  first + uint64_t{count} <= fresh_rows(),
              "rows {} to {} of layer {}, which has {} of {}", first, first + uint64_t{count},
              layer, pieces_[layer], fresh_rows());
  written_[layer] = true;
  pieces_[layer] += count;
}

void CheckedStep::view(const Query& query, base::Arena& scratch, kernels::View& out) {
  check_query(query);
  view_rows(query, scratch, out);
}

void CheckedStep::commit(const Kept& kept) {
  check_live();
  check_kept(kept);
  try {
    keep_all(kept);
    if (store_.shape().window > 0)
      for (const StepSlot& step_slot : step_slots_)
        if (!step_slot.sequence->lost) store_.give_back(*step_slot.sequence);
  } catch (const std::bad_alloc&) {
    for (const StepSlot& step_slot : step_slots_) step_slot.sequence->lost = true;
  }
  ended_ = true;
  store_.live_ = nullptr;
  store_.settle();
}

void CheckedStep::keep_all(const Kept& kept) {
  for (uint32_t slot = 0; slot < step_slots_.size(); ++slot) keep_rows(slot, kept.rows[slot]);
}

void CheckedStep::check_live() const { KVICK_CHECK(!ended_, "the step is used after its commit"); }

void CheckedStep::check_layer(uint32_t layer) const {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
}

void CheckedStep::check_query(const Query& query) const {
  check_layer(query.layer);
  const Shape& shape = store_.shape();
  KVICK_CHECK(query.slot < step_slots_.size(), "slot {} of {}", query.slot, step_slots_.size());
  KVICK_CHECK(query.head < shape.kv_heads, "KV head {} of {}", query.head, shape.kv_heads);
  KVICK_CHECK(was_written(query.layer), "layer {} is viewed before it is written", query.layer);
}

void CheckedStep::check_kept(const Kept& kept) const {
  KVICK_CHECK_EQ(kept.rows.size(), step_slots_.size());
  for (size_t layer = 0; layer < written_.size(); ++layer) {
    KVICK_CHECK(written_[layer], "layer {} was never written", layer);
    KVICK_CHECK(pieces_[layer] == 0 || pieces_[layer] == fresh_rows(),
                "layer {} has {} of {} fresh rows", layer, pieces_[layer], fresh_rows());
  }
  for (size_t slot = 0; slot < step_slots_.size(); ++slot)
    check_kept_rows(kept.rows[slot], step_slots_[slot].fresh);
}

void check_kept_rows(std::span<const uint32_t> rows, uint32_t fresh) {
  for (size_t i = 0; i < rows.size(); ++i) {
    KVICK_CHECK(rows[i] < fresh, "row {} of {} is kept", rows[i], fresh);
    KVICK_CHECK(i == 0 || rows[i - 1] < rows[i], "row {} is kept after row {}", rows[i],
                rows[i - 1]);
  }
}

}  // namespace kvick::kv
