#include "kv/aging/aged_step.h"

#include <algorithm>
#include <numeric>

#include "kv/rows/fresh_rows.h"

namespace kvick::kv {

AgedStep::AgedStep(AgedStore& store, std::vector<StepSlot> step_slots, std::vector<RowBuffer> fresh,
                   AgingMove passage)
    : CheckedStep(store, std::move(step_slots)),
      store_(store),
      fresh_(std::move(fresh)),
      passage_(std::move(passage)) {
  for (uint32_t slot = 0; slot < this->step_slots().size(); ++slot) {
    const AgedSequence& sequence = this->sequence(slot);
    const uint32_t length = sequence.length, old = store_.first_recent_of(sequence);
    Runs& runs = runs_.emplace_back();
    // Keys that are stored in groups are shown in whole groups (Shape::of_old_rows).
    const uint32_t together = kernels::rows_together(store_.old_->shape().k_type);
    if (sequence.first < old)
      store_.old_->add_runs(store_.old_->sequence(sequence.old),
                            sequence.first / together * together, old, runs.old);
    const uint32_t added = this->step_slots()[slot].fresh;
    sequence.add_runs(old, length, runs.recent);
    if (fresh_[slot].rows() > 0)
      runs.fresh.push_back({.row = 0, .rows = added, .pos = length});
    else
      sequence.add_runs(length, length + added, runs.fresh);
  }
}

void AgedStep::write_rows(uint32_t layer, const float* k, const float* v) {
  write_fresh_rows(store_.setup(), step_slots(), {.layer = layer, .k = k, .v = v},
                   [&](uint32_t slot, uint32_t head, bool is_v, uint32_t i) {
                     const Source to = fresh_row(slot, i);
                     return to.buffer->row(layer, head, is_v, to.row);
                   });
}

void AgedStep::view_rows(const Query& query, base::Arena&, kernels::View& out) {
  const AgedSequence& sequence = this->sequence(query.slot);
  const Runs& runs = runs_[query.slot];
  const auto with = [](kernels::Segment segment, std::span<const kernels::Run> of) {
    segment.runs = of;
    return segment;
  };
  out = {};
  if (!runs.old.empty()) {
    const RowStore& store = *store_.old_;
    out.past.push_back(
        with(store.segment(store.sequence(sequence.old), query.layer, query.head), runs.old));
  }
  if (!runs.recent.empty())
    out.past.push_back(with(sequence.recent.segment(query.layer, query.head), runs.recent));
  out.fresh = with(fresh_row(query.slot, 0).buffer->segment(query.layer, query.head), runs.fresh);
}

// Moves rows that become old first, because the kept fresh rows take their places in the buffer.
void AgedStep::keep_all(const Kept& kept) {
  try {
    if (passage_.step != nullptr) pass(kept);
  } catch (...) {  // end the inner step here: the sequences may be closed before this step is gone
    passage_ = {};
    throw;
  }
  passage_ = {};
  CheckedStep::keep_all(kept);
  release();
}

void AgedStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  AgedSequence& sequence = this->sequence(slot);
  const uint32_t length = sequence.length, then = length + static_cast<uint32_t>(kept.size());
  const uint32_t first = std::max(length, store_.aging_.old_rows(then));
  // In ascending order no row is overwritten before it has moved.
  for (uint32_t row = first; row < then; ++row) {
    const Source from = fresh_row(slot, kept[row - length]);
    const uint32_t to = row % sequence.recent.rows();
    if (from.buffer == &sequence.recent && from.row == to) continue;
    sequence.recent.take(*from.buffer, from.row, to);
    store_.copied_bytes_ += store_.shape().token_bytes();
  }
  sequence.length = then;
}

void AgedStep::pass(const Kept& kept) {
  const Aging& aging = store_.aging_;
  std::vector<Source> sources;
  Kept old;
  for (size_t i = 0; i < passage_.slots.size(); ++i) {
    const uint32_t slot = passage_.slots[i];
    const AgedSequence& sequence = this->sequence(slot);
    const std::vector<uint32_t>& rows = kept.rows[slot];
    const uint32_t length = sequence.length, from = aging.old_rows(length);
    const uint32_t end = aging.old_rows(length + static_cast<uint32_t>(rows.size()));
    for (uint32_t row = from; row < end; ++row)
      sources.push_back(row < length ? Source{&sequence.recent, row % sequence.recent.rows()}
                                     : fresh_row(slot, rows[row - length]));
    sources.resize(sources.size() + passage_.old[i].fresh - (end - from));
    old.rows.emplace_back(end - from);
    std::iota(old.rows.back().begin(), old.rows.back().end(), 0U);
    store_.copied_bytes_ += (end - from) * store_.old_->shape().token_bytes();
  }
  for (uint32_t layer = 0; layer < store_.shape().layers; ++layer) {
    read_layer(layer, sources);
    passage_.step->write(layer, passage_.k.data(), passage_.v.data());
  }
  passage_.step->commit(old);
}

void AgedStep::read_layer(uint32_t layer, std::span<const Source> sources) {
  const Shape& shape = store_.shape();
  const auto read = [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      if (sources[i].buffer == nullptr) continue;
      for (const bool is_v : {false, true})
        for (uint32_t head = 0; head < shape.kv_heads; ++head)
          kernels::to_f32(is_v ? shape.v_type : shape.k_type,
                          sources[i].buffer->row(layer, head, is_v, sources[i].row),
                          shape.dim(is_v),
                          (is_v ? passage_.v : passage_.k).data() +
                              (i * shape.kv_heads + head) * shape.dim(is_v));
    }
  };
  constexpr size_t kGrain = 8;  // rows in one piece of work
  base::ThreadPool* pool = store_.setup().compute.pool;
  if (pool == nullptr) return read(0, sources.size(), 0);
  pool->parallel_for(sources.size(), kGrain, read);
}

}  // namespace kvick::kv
