#include "kv/rows/row_store.h"

#include <cstring>

#include "base/check.h"
#include "kv/rows/fresh_rows.h"

namespace kvick::kv {

StoreFacets RowStore::facets() {
  StoreFacets facets = CheckedStore::facets();
  // With a window, a prompt's rows are all there only if they are held.
  if (rows_move() && (shape().window == 0 || holds_windows())) facets.rows = this;
  return facets;
}

bool RowStore::rows_move() const {
  return kernels::rows_together(shape().k_type) == 1 && kernels::rows_together(shape().v_type) == 1;
}

void RowStore::check_movable(uint64_t rows, uint64_t bytes) const {
  for (const kernels::DType type : {shape().k_type, shape().v_type})
    KVICK_CHECK(kernels::rows_together(type) == 1, "rows of type {} go together",
                kernels::dtype_info(type).name);
  KVICK_CHECK(bytes == rows * shape().token_bytes(), "{} bytes for {} rows of {}", bytes, rows,
              shape().token_bytes());
}

void RowStore::read_rows(SeqId seq, uint32_t first, uint32_t count,
                         std::span<std::byte> out) const {
  check_idle("read_rows");
  const Sequence& sequence = find(seq);
  check_movable(count, out.size());
  const uint64_t end = uint64_t{first} + count;
  KVICK_CHECK(end <= sequence.length, "rows up to {} of {}", end, sequence.length);
  if (count == 0) return;
  KVICK_CHECK(first >= first_row(seq), "row {} was given back: there are those from {} on", first,
              first_row(seq));
  std::vector<kernels::Run> runs;
  add_runs(sequence, first, static_cast<uint32_t>(end), runs);
  std::byte* to = out.data();
  for (uint32_t layer = 0; layer < shape().layers; ++layer)
    for (uint32_t head = 0; head < shape().kv_heads; ++head) {
      const kernels::Segment from = segment(sequence, layer, head);
      for (const bool is_v : {false, true}) {
        const size_t row = shape().row_bytes(is_v);
        for (const kernels::Run& run : runs) {
          std::memcpy(to, (is_v ? from.v : from.k) + run.row * row, run.rows * row);
          to += run.rows * row;
        }
      }
    }
}

RowStep::RowStep(RowStore& store, std::vector<StepSlot> step_slots)
    : CheckedStep(store, std::move(step_slots)), store_(store) {
  for (const StepSlot& step_slot : this->step_slots()) {
    const uint32_t length = step_slot.sequence->length;
    Runs& runs = runs_.emplace_back();
    store.add_runs(*step_slot.sequence, step_slot.sequence->first, length, runs.past);
    store.add_runs(*step_slot.sequence, length, length + step_slot.fresh, runs.fresh);
  }
}

void RowStep::write_rows(uint32_t layer, const float* k, const float* v) {
  use(layer);
  write_fresh({.layer = layer, .k = k, .v = v});
  wrote(layer);
}

void RowStep::write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                          const float* v) {
  mark_piece(layer, first, count);
  const StepSlot& last = step_slots().back();
  const uint64_t end = uint64_t{first} + count;
  use(layer);
  write_fresh({.layer = layer, .k = k, .v = v, .first = first, .end = end});
  if (end == last.first + last.fresh) wrote(layer);
}

void RowStep::put(std::span<const std::byte> rows) {
  check_live();
  KVICK_CHECK(step_slots().size() == 1, "rows of one sequence in a step of {}",
              step_slots().size());
  KVICK_CHECK(!was_written(0), "rows are put once");
  const Shape& shape = store_.shape();
  store_.check_movable(step_slots()[0].fresh, rows.size());
  const std::byte* from = rows.data();
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    use(layer);
    for (uint32_t head = 0; head < shape.kv_heads; ++head)
      for (const bool is_v : {false, true})
        for (const kernels::Run& run : runs_[0].fresh) {
          const size_t bytes = run.rows * shape.row_bytes(is_v);
          std::memcpy(fresh_row(0, layer, head, is_v, run.pos - step_slots()[0].sequence->length),
                      from, bytes);
          from += bytes;
        }
    wrote(layer);
    mark_written(layer);
  }
}

void RowStep::view_rows(const Query& query, base::Arena&, kernels::View& out) {
  const Runs& runs = runs_[query.slot];
  kernels::Segment segment =
      store_.segment(*step_slots()[query.slot].sequence, query.layer, query.head);
  out = {};
  segment.runs = runs.past;
  if (!runs.past.empty()) out.past.push_back(segment);
  segment.runs = runs.fresh;
  out.fresh = segment;
}

}  // namespace kvick::kv
