#include <algorithm>

#include "base/check.h"
#include "kv/select_store.h"

namespace kvick::kv {
namespace {

// The runs of some intervals of rows, given in order, out of the runs of all rows.
class ChosenRuns {
 public:
  ChosenRuns(std::span<const kernels::Run> all, std::span<kernels::Run> out)
      : run_(all.begin()), out_(out) {}

  void add(uint32_t begin, uint32_t end) {
    while (begin < end) {
      while (run_->pos + run_->rows <= begin) ++run_;
      const uint32_t skip = begin - run_->pos, rows = std::min(end - begin, run_->rows - skip);
      append({.row = run_->row + skip, .rows = rows, .pos = begin});
      begin += rows;
    }
  }
  std::span<const kernels::Run> runs() const { return out_.first(count_); }

 private:
  void append(const kernels::Run& run) {
    kernels::Run* const last = count_ > 0 ? &out_[count_ - 1] : nullptr;
    if (last != nullptr && last->row + last->rows == run.row && last->pos + last->rows == run.pos)
      last->rows += run.rows;
    else
      out_[count_++] = run;
  }

  std::span<const kernels::Run>::iterator run_;
  std::span<kernels::Run> out_;
  size_t count_ = 0;
};

}  // namespace

SelectStep::SelectStep(SelectStore& store, std::vector<Place> places, std::unique_ptr<Step> inner)
    : CheckedStep(store, std::move(places)), store_(store), inner_(std::move(inner)) {
  if (!store_.selector_->has_side_rows()) return;
  const Shape& shape = store_.shape();
  side_.resize(size_t{shape.layers} * tokens() * shape.kv_heads * side_bytes());
  predicted_.resize(tokens() * store_.selector_->predicted_floats());
}

void SelectStep::inputs(uint32_t layer, const float* x) {
  KVICK_CHECK(layer < store_.shape().layers, "layer {} of {}", layer, store_.shape().layers);
  KVICK_CHECK(!side_.empty(), "inputs of a store that wants none");
  const size_t layer_bytes = tokens() * store_.shape().kv_heads * side_bytes();
  store_.selector_->project(layer, x, static_cast<uint32_t>(tokens()),
                            side_.data() + layer * layer_bytes, predicted_.data());
  predicted_layer_ = layer;
}

void SelectStep::write_rows(uint32_t layer, const float* k, const float* v) {
  inner_->write(layer, k, v);
}

void SelectStep::view_rows(const Ask& ask, base::Arena& scratch, kernels::View& out) {
  inner_->view(ask, scratch, out);
  const Place& place = places()[ask.slot];
  const Selection& selection = store_.selector_->selection();
  const uint32_t committed = place.sequence->length;
  uint64_t bytes = 0;
  if (place.fresh <= kMostSelecting && ask.layer >= selection.dense_layers) {
    const Choosing choosing = selection.of(committed);
    if (!choosing.all()) {
      choose(ask, choosing, scratch, out);
      bytes = store_.selector_->choice_bytes(choosing, committed);
    }
  }
  store_.read_bytes_.fetch_add(bytes + view_bytes(out), std::memory_order_relaxed);
}

uint64_t SelectStep::view_bytes(const kernels::View& view) const {
  uint64_t rows = kernels::rows_of(view.fresh);
  for (const kernels::Segment& segment : view.past) rows += kernels::rows_of(segment);
  return rows * (store_.shape().row_bytes(false) + store_.shape().row_bytes(true));
}

void SelectStep::choose(const Ask& ask, const Choosing& choosing, base::Arena& scratch,
                        kernels::View& out) {
  KVICK_CHECK(ask.q != nullptr, "a view without queries of a store whose views depend on them");
  const Place& place = places()[ask.slot];
  const uint32_t group = store_.setup().group;
  const auto queries = scratch.make<const float*>(size_t{place.fresh} * group);
  for (size_t i = 0; i < queries.size(); ++i)
    queries[i] = ask.q + i / group * ask.q_stride + i % group * store_.shape().head_dim;
  kernels::Segment& past = out.past[0];
  Question question = {.rows = store_.rows_of(static_cast<const SelectSequence&>(*place.sequence),
                                              ask.layer, ask.head),
                       .count = place.sequence->length,
                       .choosing = choosing,
                       .queries = queries,
                       .group = group,
                       .fresh = out.fresh};
  question.rows.segment = past;
  if (store_.selector_->has_side_rows()) {
    KVICK_CHECK_EQ(predicted_layer_, ask.layer);
    question.predicted = predicted_.data() + place.first * store_.selector_->predicted_floats();
  }
  Choice choice;
  store_.selector_->choose(question, scratch, choice);
  KVICK_CHECK_EQ(choice.rows.size(), choosing.take);
  ChosenRuns runs(past.runs, scratch.make<kernels::Run>(past.runs.size() + choosing.take + 2));
  runs.add(0, choosing.first);
  for (const uint32_t row : choice.rows) runs.add(row, row + 1);
  runs.add(choosing.last, question.count);
  past.runs = runs.runs();
  past.bucket = out.fresh.bucket = {};
  out.rest = choice.rest;
  out.rest_mass = choice.rest_mass;
}

void SelectStep::keep_all(const Kept& kept) {
  inner_->commit(kept);
  CheckedStep::keep_all(kept);
}

void SelectStep::keep_side_rows(uint32_t slot, std::span<const uint32_t> kept) {
  const Place& place = places()[slot];
  const auto& sequence = static_cast<const SelectSequence&>(*place.sequence);
  const Shape& shape = store_.shape();
  const size_t bytes = side_bytes();
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const RowsOfHead rows = store_.rows_of(sequence, layer, head);
      for (uint32_t i = 0; i < kept.size(); ++i) {
        const uint32_t to = sequence.length + i;
        const uint64_t from = (layer * tokens() + place.first + kept[i]) * shape.kv_heads + head;
        store_.selector_->keep(rows, to, std::span(side_).subspan(from * bytes, bytes));
      }
    }
}

void SelectStep::keep_rows(uint32_t slot, std::span<const uint32_t> kept) {
  if (store_.selector_->has_side_rows()) keep_side_rows(slot, kept);
  places()[slot].sequence->length += static_cast<uint32_t>(kept.size());
}

}  // namespace kvick::kv
