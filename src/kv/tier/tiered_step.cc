#include "kv/tier/tiered_step.h"

#include <cstring>

#include "base/check.h"
#include "kv/rows/fresh_rows.h"
#include "kv/rows/segment.h"

namespace kvick::kv {

TieredStep::TieredStep(TieredStore& store, std::vector<StepSlot> step_slots,
                       std::vector<uint32_t> extents, uint64_t kept_units)
    : CheckedStep(store, std::move(step_slots)),
      store_(store),
      extents_(std::move(extents)),
      kept_units_(kept_units) {
  if (store_.layout_.loads) ahead_ = false;
  for (uint32_t slot = 0; !store_.layout_.loads && slot < this->step_slots().size(); ++slot) {
    if (!store_.shows_all(this->step_slots()[slot])) {
      ahead_ = false;
      continue;
    }
    TieredSequence& sequence = this->sequence(slot);
    const uint32_t full = store_.layout_.full(sequence.length);
    for (uint32_t unit = store_.unseen(sequence); unit < full; ++unit)
      full_.push_back({&sequence, unit});
  }
  if (!ahead_) return;
  // Read the first layer while the model computes embeddings and projections.
  next_.layer = 0;
  pin(next_, Frames::Patience::kSpare);
  store_.frames_->submit();
}

// What cannot be released after an exception in the middle of a step is freed with the store.
TieredStep::~TieredStep() {
  try {
    release();
  } catch (...) {
  }
}

// Runs only once: a step may outlive its commit and its sequences.
void TieredStep::release() {
  if (std::exchange(released_, true)) return;
  layer_ = kNoLayer;
  unpin_chosen(kNoLayer);
  unpin(current_);
  unpin(next_);
  for (const StepSlot& step_slot : step_slots())
    store_.drop_fresh(TieredStore::mine(*step_slot.sequence));
  store_.extents_.give(extents_);
}

// -- frames of a layer --

void TieredStep::pin(Pinned& pinned, Frames::Patience patience) {
  Frames& frames = *store_.frames_;
  const uint32_t heads = store_.layout_.heads;
  for (; pinned.tried < units_of_layer(); ++pinned.tried) {
    const FullUnit& full = full_[pinned.tried / heads];
    const auto head = static_cast<uint32_t>(pinned.tried % heads);
    const Unit unit = {full.of, store_.layout_.index(full.unit, pinned.layer, head)};
    pinned.units.reserve(units_of_layer());
    pinned.numbers.reserve(units_of_layer());
    if (!frames.pin(unit, store_.at(*full.of, unit.index), patience)) {
      if (patience == Frames::Patience::kSpare) return;
      frames.fail(*full.of);
      continue;
    }
    pinned.units.push_back(unit);
    pinned.numbers.push_back(pinned.layer * units_of_layer() + pinned.tried);
  }
}

void TieredStep::unpin(Pinned& pinned) {
  for (size_t i = 0; i < pinned.units.size(); ++i)
    store_.frames_->unpin(pinned.units[i], pinned.numbers[i] < kept_units_);
  pinned = {};
}

// Brings the layer's rows into frames, and starts to read the next layer's rows as far as there are
// free frames.
void TieredStep::read_layer(uint32_t layer) {
  const std::lock_guard lock(reading_);
  if (layer_ == layer) return;
  layer_ = kNoLayer;
  unpin_chosen(layer);
  unpin(current_);
  if (next_.layer != layer) unpin(next_);
  std::swap(current_, next_);
  current_.layer = layer;
  pin(current_, Frames::Patience::kWait);
  store_.frames_->submit();
  store_.frames_->wait(current_.units);
  if (ahead_ && layer + 1 < store_.shape().layers) {
    next_.layer = layer + 1;
    pin(next_, Frames::Patience::kSpare);
    store_.frames_->submit();
  }
  layer_ = layer;
}

// -- rows --

std::byte* TieredStep::row(const TieredSequence& sequence, uint32_t layer, uint32_t head,
                           uint64_t token) const {
  const UnitLayout& layout = store_.layout_;
  const FrameId frame = sequence.frames[layout.index(layout.full(token), layer, head)];
  return store_.frames_->data(frame) + token % layout.tokens * layout.pair_bytes;
}

void TieredStep::write_rows(uint32_t layer, const float* k, const float* v) {
  const size_t k_bytes = store_.shape().row_bytes(false);
  write_fresh_rows(store_.setup(), step_slots(), {.layer = layer, .k = k, .v = v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     const TieredSequence& sequence = this->sequence(slot);
                     const uint64_t token = uint64_t{sequence.length} + i;
                     return row(sequence, layer, head, token) + (is_v ? k_bytes : 0);
                   });
  unpin_chosen(layer);
  if (!full_.empty()) read_layer(layer);
}

// Returns where tokens [begin, end) are. Units that could not be read are left out; their sequence
// has failed.
std::span<const kernels::Run> TieredStep::runs(const Query& query, uint32_t begin, uint32_t end,
                                               base::Arena& scratch) const {
  const UnitLayout& layout = store_.layout_;
  const TieredSequence& sequence = this->sequence(query.slot);
  const std::span<kernels::Run> runs =
      scratch.make<kernels::Run>(layout.touched(end) - layout.full(begin));
  size_t count = 0;
  for (uint32_t token = begin; token < end;) {
    const uint32_t in_unit = token % layout.tokens;
    const uint32_t n = std::min(layout.tokens - in_unit, end - token);
    const FrameId frame =
        sequence.frames[layout.index(layout.full(token), query.layer, query.head)];
    const uint32_t row = frame * layout.tokens + in_unit;
    if (frame == kNoFrame) {
      token += n;
      continue;
    }
    kernels::Run* const last = count > 0 ? &runs[count - 1] : nullptr;
    if (last != nullptr && last->row + last->rows == row && last->pos + last->rows == token)
      last->rows += n;
    else
      runs[count++] = {.row = row, .rows = n, .pos = token};
    token += n;
  }
  return runs.first(count);
}

// Returns the layer's segment without runs. rows: the first of the numbered rows.
kernels::Segment TieredStep::segment(const Query& query, const std::byte* rows) const {
  kernels::Segment segment = segment_of(store_.setup(), query.layer, query.head, rows,
                                        rows + store_.shape().row_bytes(false));
  segment.k_stride = segment.v_stride = static_cast<uint32_t>(store_.layout_.pair_bytes);
  return segment;
}

void TieredStep::show_fresh(const Query& query, base::Arena& scratch, kernels::View& out) const {
  const uint32_t length = sequence(query.slot).length;
  out.fresh = segment(query, store_.frames_->data(0));
  out.fresh.runs = runs(query, length, length + step_slots()[query.slot].fresh, scratch);
}

// Rows of a layer and head where they are, in frames and in the tier. Frames are evicted between
// steps only, so a view stays as it is.
class TieredStep::Loaded {
 public:
  // most: number of calls of add.
  Loaded(const TieredStep& step, const Query& query, size_t most, base::Arena& scratch)
      : step_(step),
        query_(query),
        sequence_(step.sequence(query.slot)),
        in_tier_{.runs = scratch.make<kernels::Run>(most)},
        in_frames_{.runs = scratch.make<kernels::Run>(most)} {}

  // Adds `count` tokens of one unit; tokens ascend.
  void add(uint32_t token, uint32_t count) {
    const UnitLayout& layout = step_.store_.layout_;
    const uint32_t in_unit = token % layout.tokens;
    const size_t index = layout.index(layout.full(token), query_.layer, query_.head);
    const FrameId frame = sequence_.frames[index];
    if (frame != kNoFrame)
      return in_frames_.add({.row = frame * layout.tokens + in_unit, .rows = count, .pos = token});
    const uint64_t row = step_.store_.at(sequence_, index) / layout.pair_bytes + in_unit;
    in_tier_.add({.row = static_cast<uint32_t>(row), .rows = count, .pos = token});
    loaded_ += count * layout.pair_bytes;
  }

  void show(kernels::View& out) const {
    Frames& frames = *step_.store_.frames_;
    show(frames.tier().memory(), in_tier_, out);
    show(frames.data(0), in_frames_, out);
    step_.store_.begin_load(loaded_);
  }

 private:
  struct Place {
    std::span<kernels::Run> runs;
    size_t count = 0;
    void add(const kernels::Run& run) {
      kernels::Run* const last = count > 0 ? &runs[count - 1] : nullptr;
      if (last != nullptr && last->row + last->rows == run.row && last->pos + last->rows == run.pos)
        last->rows += run.rows;
      else
        runs[count++] = run;
    }
  };
  void show(const std::byte* rows, const Place& place, kernels::View& out) const {
    if (place.count == 0) return;
    kernels::Segment segment = step_.segment(query_, rows);
    segment.runs = place.runs.first(place.count);
    out.past.push_back(segment);
  }

  const TieredStep& step_;
  const Query& query_;
  const TieredSequence& sequence_;
  Place in_tier_, in_frames_;
  uint64_t loaded_ = 0;  // bytes
};

void TieredStep::view_rows(const Query& query, base::Arena& scratch, kernels::View& out) {
  KVICK_CHECK(store_.shows_all(step_slots()[query.slot]),
              "slot {} shows the rows that are asked for", query.slot);
  const uint32_t first = sequence(query.slot).first, length = sequence(query.slot).length;
  out = {};
  if (const UnitLayout& layout = store_.layout_; layout.loads) {
    Loaded loaded(*this, query, layout.touched(length) - layout.full(first), scratch);
    for (uint32_t token = first; token < length;) {
      const uint32_t count = std::min(layout.tokens - token % layout.tokens, length - token);
      loaded.add(token, count);
      token += count;
    }
    loaded.show(out);
    return show_fresh(query, scratch, out);
  }
  if (layer_ != query.layer) read_layer(query.layer);
  kernels::Segment segment = this->segment(query, store_.frames_->data(0));
  segment.runs = runs(query, first, length, scratch);
  if (!segment.runs.empty()) out.past.push_back(segment);
  show_fresh(query, scratch, out);
}

// -- some rows --

void TieredStep::pin_some(const Query& query, std::span<const uint32_t> rows,
                          Frames::Patience patience, std::vector<Unit>& pinned) {
  const UnitLayout& layout = store_.layout_;
  TieredSequence& sequence = this->sequence(query.slot);
  const uint32_t full = layout.full(sequence.length);
  uint32_t last = full;
  for (const uint32_t row : rows) {
    const uint32_t at = layout.full(row);
    if (at < store_.unseen(sequence) || at >= full || at == last) continue;
    last = at;
    const Unit unit = {&sequence, layout.index(at, query.layer, query.head)};
    if (store_.frames_->pin(unit, store_.at(sequence, unit.index), patience)) {
      pinned.push_back(unit);
      continue;
    }
    if (patience == Frames::Patience::kSpare) break;
    store_.frames_->fail(sequence);
    break;
  }
  store_.frames_->submit();
  const std::lock_guard lock(choosing_);
  for (const Unit& unit : pinned) chosen_.emplace_back(query.layer, unit);
}

void TieredStep::unpin_chosen(uint32_t but_layer) {
  const std::lock_guard lock(choosing_);
  std::erase_if(chosen_, [&](const auto& one) {
    if (one.first == but_layer) return false;
    store_.frames_->unpin(one.second, false);
    return true;
  });
}

void TieredStep::prefetch(const Query& query, std::span<const uint32_t> rows) {
  if (store_.layout_.loads) return;
  std::vector<Unit> pinned;
  pin_some(query, rows, Frames::Patience::kSpare, pinned);
}

void TieredStep::view_some(const Query& query, std::span<const uint32_t> rows, base::Arena& scratch,
                           kernels::View& out) {
  out = {};
  if (store_.layout_.loads) {
    Loaded loaded(*this, query, rows.size(), scratch);
    for (const uint32_t token : rows) loaded.add(token, 1);
    loaded.show(out);
    return show_fresh(query, scratch, out);
  }
  if (chosen_layer_.exchange(query.layer) != query.layer) unpin_chosen(query.layer);
  std::vector<Unit> pinned;
  pin_some(query, rows, Frames::Patience::kWait, pinned);
  store_.frames_->wait(pinned);
  const UnitLayout& layout = store_.layout_;
  const TieredSequence& sequence = this->sequence(query.slot);
  const std::span<kernels::Run> some = scratch.make<kernels::Run>(rows.size());
  size_t count = 0;
  for (const uint32_t token : rows) {
    const FrameId frame =
        sequence.frames[layout.index(layout.full(token), query.layer, query.head)];
    if (frame == kNoFrame) continue;  // the sequence has failed
    const uint32_t row = frame * layout.tokens + token % layout.tokens;
    kernels::Run* const last = count > 0 ? &some[count - 1] : nullptr;
    if (last != nullptr && last->row + last->rows == row && last->pos + last->rows == token)
      ++last->rows;
    else
      some[count++] = {.row = row, .rows = 1, .pos = token};
  }
  kernels::Segment segment = this->segment(query, store_.frames_->data(0));
  segment.runs = some.first(count);
  if (count > 0) out.past.push_back(segment);
  show_fresh(query, scratch, out);
}

// -- commit --

void TieredStep::keep_all(const Kept& kept) {
  unpin_chosen(kNoLayer);
  unpin(current_);
  unpin(next_);
  try {
    CheckedStep::keep_all(kept);
  } catch (...) {  // release here: the sequences may be closed before the step is destroyed
    release();
    throw;
  }
  release();
}

void TieredStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  TieredSequence& sequence = this->sequence(slot);
  if (!store_.frames_->failure(sequence).empty()) return;
  const Shape& shape = store_.shape();
  // In ascending order no row is overwritten before it has moved.
  for (uint32_t i = 0; i < kept.size(); ++i) {
    if (kept[i] == i) continue;
    const uint64_t length = sequence.length;
    for (uint32_t layer = 0; layer < shape.layers; ++layer)
      for (uint32_t head = 0; head < shape.kv_heads; ++head)
        std::memcpy(row(sequence, layer, head, length + i),
                    row(sequence, layer, head, length + kept[i]), store_.layout_.pair_bytes);
    store_.copied_bytes_ += shape.token_bytes();
  }
  const uint32_t first = store_.layout_.full(sequence.length);
  sequence.length += static_cast<uint32_t>(kept.size());
  store_full(sequence, first);
}

void TieredStep::store_full(TieredSequence& sequence, uint32_t first_unit) {
  const UnitLayout& layout = store_.layout_;
  const uint32_t unseen = layout.full(store_.shape().first_seen(sequence.length));
  uint64_t written = 0;  // bytes that a processor writes to the tier
  for (uint32_t unit = first_unit; unit < layout.full(sequence.length); ++unit) {
    if (unit < unseen) {  // TieredStore::give_back gives it back at once
      sequence.extents.push_back(kNoExtent);
      continue;
    }
    sequence.extents.push_back(extents_.back());
    extents_.pop_back();
    for (size_t i = 0; i < layout.regions; ++i) {
      const size_t index = size_t{unit} * layout.regions + i;
      if (layout.loads)
        store_.frames_->store_now({&sequence, index}, store_.at(sequence, index));
      else
        store_.frames_->store({&sequence, index}, store_.at(sequence, index));
    }
    if (layout.loads) written += uint64_t{layout.regions} * layout.bytes;
  }
  // Once for all units: the latencies of their stores overlap.
  if (written > 0) store_.frames_->tier().wait_for_channel(written);
}

}  // namespace kvick::kv
