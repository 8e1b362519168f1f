#include "kv/select/select_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "kv/rows/chosen_runs.h"
#include "kv/select/row_arithmetic.h"

namespace kvick::kv {
namespace {

float scale_of(const Query& query, const Shape& shape) {
  return query.scale != 0 ? query.scale : 1 / std::sqrt(static_cast<float>(shape.head_dim));
}

// Returns the runs of the step's kept rows, with their positions after the commit.
std::vector<kernels::Run> kept_runs(std::span<const kernels::Run> fresh, uint32_t length,
                                    std::span<const uint32_t> kept) {
  std::vector<kernels::Run> runs;
  auto run = fresh.begin();
  for (uint32_t i = 0; i < kept.size(); ++i) {
    const uint32_t pos = length + kept[i];
    while (run->pos + run->rows <= pos) ++run;
    runs.push_back({.row = run->row + (pos - run->pos), .rows = 1, .pos = length + i});
  }
  return runs;
}

// Copies rows [from, end) into one segment: committed ones, which may be in two (a tier in memory
// and its frames), and then those of `kept`.
kernels::Segment in_one_segment(const Shape& shape, std::span<const kernels::Segment> committed,
                                const kernels::Segment& kept, uint32_t from, uint32_t end,
                                base::Arena& scratch) {
  const size_t k_bytes = shape.row_bytes(false), v_bytes = shape.row_bytes(true);
  const std::span<std::byte> rows = scratch.make<std::byte>((end - from) * (k_bytes + v_bytes));
  const auto copy = [&](const kernels::Segment& segment) {
    for_each_row(segment, from, end, [&](uint32_t row, const std::byte* k, const std::byte* v) {
      std::byte* const to = rows.data() + (row - from) * (k_bytes + v_bytes);
      std::memcpy(to, k, k_bytes);
      std::memcpy(to + k_bytes, v, v_bytes);
    });
  };
  for (const kernels::Segment& segment : committed) copy(segment);
  copy(kept);
  const std::span<kernels::Run> run = scratch.make<kernels::Run>(1);
  run[0] = {.row = 0, .rows = end - from, .pos = from};
  kernels::Segment all = kept;  // for its types and scales
  all.k = rows.data();
  all.v = rows.data() + k_bytes;
  all.k_stride = all.v_stride = static_cast<uint32_t>(k_bytes + v_bytes);
  all.runs = run;
  return all;
}

// Returns the chosen rows one by one.
std::span<const uint32_t> single_rows(const SelectedRows& choice, base::Arena& scratch) {
  if (choice.each == 1) return choice.rows;
  const std::span<uint32_t> rows = scratch.make<uint32_t>(choice.rows.size() * choice.each);
  auto row = rows.begin();
  for (const uint32_t first : choice.rows) {
    std::iota(row, row + choice.each, first);
    row += choice.each;
  }
  return rows;
}

// Returns all committed rows that a view shows: the chosen rows and those that are always read.
std::span<const uint32_t> all_rows(const TopRows& top_rows, const SelectedRows& choice,
                                   uint32_t count, base::Arena& scratch) {
  const std::span<const uint32_t> chosen = single_rows(choice, scratch);
  const std::span<uint32_t> rows = scratch.make<uint32_t>(top_rows.read_rows(count));
  const auto first = rows.begin() + top_rows.first;
  std::iota(rows.begin(), first, 0);
  std::iota(std::copy(chosen.begin(), chosen.end(), first), rows.end(), top_rows.last);
  return rows;
}

}  // namespace

SelectStep::SelectStep(SelectStore& store, std::vector<StepSlot> step_slots,
                       std::unique_ptr<Step> inner)
    : CheckedStep(store, std::move(step_slots)),
      store_(store),
      inner_(std::move(inner)),
      lost_(this->step_slots().size()) {
  for (std::atomic<float>& lost : lost_) lost = -1;
  if (store_.rows_ == nullptr) fetcher_ = inner_->facets().fetcher;
  if (!store_.selector_->has_side_rows()) return;
  const Shape& shape = store_.shape();
  side_.resize(size_t{shape.layers} * tokens() * shape.kv_heads * side_bytes());
  predicted_.resize(tokens() * store_.selector_->predicted_floats());
}

void SelectStep::inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) {
  check_layer(layer);
  KVICK_CHECK(!side_.empty(), "inputs of a store that wants none");
  KVICK_CHECK_EQ(positions.size(), tokens());
  const size_t layer_bytes = tokens() * store_.shape().kv_heads * side_bytes();
  store_.selector_->project({.layer = layer, .x = x, .positions = positions},
                            side_.data() + layer * layer_bytes, predicted_.data());
  predicted_layer_ = layer;
  if (store_.foresees_) prefetch(layer);
}

// The choice needs no queries, only SelectRequest::predicted. So rows are read from the tier while
// the layer projects its queries.
void SelectStep::prefetch(uint32_t layer) {
  const uint32_t heads = store_.shape().kv_heads;
  const auto work = [&](size_t begin, size_t end, unsigned) {
    base::Arena scratch;
    for (size_t at = begin; at < end; ++at) {
      const Query query = {.slot = static_cast<uint32_t>(at / heads),
                           .layer = layer,
                           .head = static_cast<uint32_t>(at % heads)};
      const TopRows top_rows = choosing_of(query.slot, layer);
      if (top_rows.all()) continue;
      scratch.reset();
      const SelectedRows choice = choose(query, top_rows, {}, scratch);
      const uint32_t count = step_slots()[query.slot].sequence->length;
      fetcher_->prefetch(query, all_rows(top_rows, choice, count, scratch));
    }
  };
  const size_t count = step_slots().size() * heads;
  if (base::ThreadPool* const pool = store_.setup().compute.pool)
    pool->parallel_for(count, 1, work);
  else
    work(0, count, 0);
}

void SelectStep::put(std::span<const std::byte> rows) {
  check_live();
  inner_->facets().sink->put(rows);
  for (uint32_t layer = 0; layer < store_.shape().layers; ++layer) mark_written(layer);
}

void SelectStep::write_rows(uint32_t layer, const float* k, const float* v) {
  inner_->write(layer, k, v);
}

TopRows SelectStep::choosing_of(uint32_t slot, uint32_t layer) const {
  const Selection& selection = store_.selector_->selection();
  const StepSlot& step_slot = step_slots()[slot];
  if (!chooses(step_slot) || layer < selection.dense_layers) return {};
  const Meter& meter = static_cast<const SelectSequence&>(*step_slot.sequence).meter;
  const TopRows top_rows = selection.raised(meter.level).of(step_slot.sequence->length);
  return top_rows.all() ? TopRows{} : top_rows;
}

void SelectStep::view_rows(const Query& query, base::Arena& scratch, kernels::View& out) {
  const StepSlot& step_slot = step_slots()[query.slot];
  const uint32_t committed = step_slot.sequence->length;
  const TopRows top_rows = choosing_of(query.slot, query.layer);
  const bool fetched = fetcher_ != nullptr && chooses(step_slot);
  if (!fetched) inner_->view(query, scratch, out);
  SelectedRows choice;
  uint64_t bytes = 0;
  if (!top_rows.all()) {
    KVICK_CHECK(query.q != nullptr, "a view without queries of a store whose views depend on them");
    choice = choose(query, top_rows, out, scratch);
    bytes = store_.selector_->choice_bytes(top_rows, committed);
  }
  if (checks(query)) lost_[query.slot] = lost_of(query, top_rows, choice, out, scratch);
  if (fetched)
    fetcher_->view_some(query, all_rows(top_rows, choice, committed, scratch), scratch, out);
  else if (!top_rows.all())
    narrow(top_rows, choice, scratch, out);
  out.rest = choice.rest;
  out.rest_mass = choice.rest_mass;
  store_.read_bytes_.fetch_add(bytes + view_bytes(out), std::memory_order_relaxed);
  // Added after the count: choice_bytes() already counts the stand-ins.
  for (const kernels::Segment& segment : choice.stand_ins) out.past.push_back(segment);
}

uint64_t SelectStep::view_bytes(const kernels::View& view) const {
  uint64_t rows = kernels::rows_of(view.fresh);
  for (const kernels::Segment& segment : view.past) rows += kernels::rows_of(segment);
  return rows * (store_.shape().row_bytes(false) + store_.shape().row_bytes(true));
}

// Policies see queries and keys without the Hadamard transform of the rows, which would spread the
// large components that some policies look for.
void SelectStep::plain_queries(std::span<const float*> queries, base::Arena& scratch) const {
  const Shape& shape = store_.shape();
  const uint32_t block = shape.hadamard_blocks().k;
  if (block == 0) return;
  for (const float*& query : queries) {
    if (query == nullptr) continue;
    const std::span<float> plain = scratch.make<float>(shape.head_dim);
    std::copy_n(query, plain.size(), plain.begin());
    transform(kernels_of(store_.setup()), block, plain);
    query = plain.data();
  }
}

// all: the view of all rows, empty if they are in a slower tier.
SelectedRows SelectStep::choose(const Query& query, const TopRows& top_rows,
                                const kernels::View& all, base::Arena& scratch) const {
  const StepSlot& step_slot = step_slots()[query.slot];
  const uint32_t group = store_.setup().select.group;
  const auto queries = scratch.make<const float*>(size_t{step_slot.fresh} * group);
  for (size_t i = 0; i < queries.size(); ++i)
    queries[i] = query.q == nullptr
                     ? nullptr
                     : query.q + i / group * query.q_stride + i % group * store_.shape().head_dim;
  plain_queries(queries, scratch);
  SelectRequest question = {
      .rows = store_.rows_of(static_cast<const SelectSequence&>(*step_slot.sequence), query.layer,
                             query.head),
      .count = step_slot.sequence->length,
      .top_rows = top_rows,
      .queries = queries,
      .group = group,
      .scale = scale_of(query, store_.shape()),
      .softcap = query.softcap,
      .sinks = query.sinks,
      .path = query.path,
      .fresh = all.fresh};
  if (!all.past.empty()) question.rows.segment = all.past[0];
  if (store_.selector_->has_side_rows()) {
    KVICK_CHECK_EQ(predicted_layer_, query.layer);
    question.predicted = predicted_.data() + step_slot.first * store_.selector_->predicted_floats();
  }
  SelectedRows choice;
  store_.selector_->choose(question, scratch, choice);
  KVICK_CHECK_EQ(choice.rows.size() * choice.each, top_rows.take);
  return choice;
}

bool SelectStep::checks(const Query& query) const {
  const StepSlot& step_slot = step_slots()[query.slot];
  const uint32_t heads = store_.shape().kv_heads;
  const uint32_t dense = store_.selector_->selection().dense_layers;
  if (fetcher_ != nullptr || !chooses(step_slot) || query.layer < dense) return false;
  return checked_view(step_slot.sequence->length, step_slot.fresh,
                      (store_.shape().layers - dense) * heads) ==
         (query.layer - dense) * heads + query.head;
}

// A view of all rows loses nothing; that counts as a check only if the budget was raised.
float SelectStep::lost_of(const Query& query, const TopRows& top_rows, const SelectedRows& choice,
                          const kernels::View& all, base::Arena& scratch) const {
  const auto& sequence = static_cast<const SelectSequence&>(*step_slots()[query.slot].sequence);
  if (top_rows.all()) return sequence.meter.level > 0 ? 0.0F : -1.0F;
  const std::span<const float*> queries = scratch.make<const float*>(store_.setup().select.group);
  const uint32_t dims = store_.shape().head_dim;
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = query.q + i * dims;
  return lost_mass(kernels_of(store_.setup()),
                   {.past = all.past[0],
                    .fresh = all.fresh,
                    .count = sequence.length,
                    .queries = queries,
                    .head_dim = dims,
                    .scale = scale_of(query, store_.shape()),
                    .softcap = query.softcap,
                    .sinks = query.sinks},
                   top_rows, single_rows(choice, scratch), scratch);
}

// Narrows a view of all rows to the rows that are read.
void SelectStep::narrow(const TopRows& top_rows, const SelectedRows& choice, base::Arena& scratch,
                        kernels::View& out) const {
  kernels::Segment& past = out.past[0];
  const uint32_t count = kernels::rows_of(past);
  ChosenRuns runs(past.runs, scratch.make<kernels::Run>(past.runs.size() + top_rows.take + 2));
  runs.add(0, top_rows.first);
  if (choice.each == 1)
    runs.add(choice.rows);
  else
    for (const uint32_t row : choice.rows) runs.add(row, row + choice.each);
  runs.add(top_rows.last, count);
  past.runs = runs.runs();
  past.bucket = out.fresh.bucket = {};
}

// -- commit --

bool SelectStep::failed(uint32_t slot) const {
  const auto& sequence = static_cast<const SelectSequence&>(*step_slots()[slot].sequence);
  return !store_.inner_->failure(sequence.inner).empty();
}

void SelectStep::keep_all(const Kept& kept) {
  try {
    if (fetcher_ != nullptr && store_.summary_.rows > 0 && !store_.selector_->has_side_rows())
      for (uint32_t slot = 0; slot < step_slots().size(); ++slot) summarise(slot, kept.rows[slot]);
  } catch (...) {  // end the inner step here: the sequences may be closed before this step is gone
    fetcher_ = nullptr;
    inner_.reset();
    throw;
  }
  inner_->commit(kept);
  CheckedStep::keep_all(kept);
}

// Called before the inner commit, after which the rows may leave memory.
void SelectStep::summarise(uint32_t slot, std::span<const uint32_t> kept) {
  if (kept.empty() || failed(slot)) return;
  const auto& sequence = static_cast<const SelectSequence&>(*step_slots()[slot].sequence);
  const uint32_t heads = store_.shape().kv_heads, length = sequence.length;
  const auto then = length + static_cast<uint32_t>(kept.size());
  // Rows from here on are read; those before `length` only if Selector::summarises_again().
  const uint32_t from = store_.selector_->summary_begin(length, then);
  const auto work = [&](size_t begin, size_t end, unsigned) {
    base::Arena scratch;
    kernels::View view;
    for (size_t at = begin; at < end; ++at) {
      const Query query = {.slot = slot,
                           .layer = static_cast<uint32_t>(at / heads),
                           .head = static_cast<uint32_t>(at % heads)};
      scratch.reset();
      const std::span<uint32_t> again = scratch.make<uint32_t>(length - from);
      std::iota(again.begin(), again.end(), from);
      fetcher_->view_some(query, again, scratch, view);
      RowsOfHead rows = store_.rows_of(sequence, query.layer, query.head);
      rows.segment = view.fresh;
      const auto runs = kept_runs(view.fresh.runs, length, kept);
      rows.segment.runs = runs;
      if (!again.empty())
        rows.segment =
            in_one_segment(store_.shape(), view.past.span(), rows.segment, from, then, scratch);
      store_.selector_->summarise(rows, length, then);
    }
  };
  constexpr size_t kGrain = 16;  // heads in one piece of work
  const size_t count = size_t{store_.shape().layers} * heads;
  if (base::ThreadPool* const pool = store_.setup().compute.pool)
    pool->parallel_for(count, kGrain, work);
  else
    work(0, count, 0);
}

void SelectStep::keep_side_rows(uint32_t slot, std::span<const uint32_t> kept) {
  const StepSlot& step_slot = step_slots()[slot];
  const auto& sequence = static_cast<const SelectSequence&>(*step_slot.sequence);
  const Shape& shape = store_.shape();
  const size_t bytes = side_bytes();
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const RowsOfHead rows = store_.rows_of(sequence, layer, head);
      for (uint32_t i = 0; i < kept.size(); ++i) {
        const uint32_t to = sequence.length + i;
        const uint64_t from =
            (layer * tokens() + step_slot.first + kept[i]) * shape.kv_heads + head;
        store_.selector_->keep(rows, to, std::span(side_).subspan(from * bytes, bytes));
      }
    }
}

void SelectStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  if (failed(slot)) return;
  if (store_.selector_->has_side_rows()) keep_side_rows(slot, kept);
  if (!kept.empty()) note_check(slot);
  step_slots()[slot].sequence->length += static_cast<uint32_t>(kept.size());
}

// Called only by commit, so checks of a dropped step do not count.
void SelectStep::note_check(uint32_t slot) {
  const float lost = lost_[slot];
  if (!(lost >= 0)) return;  // no check, or NaN
  ++store_.checks_;
  store_.lost_mass_ += lost;
  const Selection& selection = store_.selector_->selection();
  if (selection.loss == 0) return;
  auto& sequence = static_cast<SelectSequence&>(*step_slots()[slot].sequence);
  const bool more = !selection.raised(sequence.meter.level).of(sequence.length).all();
  sequence.meter.add(lost, selection, more);
}

}  // namespace kvick::kv
