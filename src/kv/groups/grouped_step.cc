#include "kv/groups/grouped_step.h"

#include "base/check.h"
#include "kv/strategy/checked_step.h"

namespace kvick::kv {

GroupedStep::GroupedStep(GroupedStore& store, std::vector<std::unique_ptr<Step>> steps,
                         const Batch& batch)
    : store_(store), steps_(std::move(steps)), written_(store.places_.size()) {
  for (const auto& step : steps_) facets_.push_back(step->facets());
  for (const Slot& slot : batch.slots) fresh_.push_back(slot.fresh);
}

void GroupedStep::end() {
  steps_.clear();
  if (store_.live_ == this) store_.live_ = nullptr;
}

const LayerPlace& GroupedStep::place(uint32_t layer) const {
  KVICK_CHECK(!steps_.empty(), "the step is used after its commit");
  KVICK_CHECK(layer < store_.places_.size(), "layer {} of {}", layer, store_.places_.size());
  const LayerPlace& at = store_.places_[layer];
  KVICK_CHECK(at.group != LayerPlace::kNowhere, "layer {} keeps nothing", layer);
  return at;
}

Query GroupedStep::inside(const Query& query) const {
  Query inside = query;
  inside.layer = place(query.layer).layer;
  return inside;
}

void GroupedStep::write(uint32_t layer, const float* k, const float* v) {
  const LayerPlace& at = place(layer);
  KVICK_CHECK(!at.shared, "layer {} reads the rows of another one and writes none", layer);
  steps_[at.group]->write(at.layer, k, v);
  written_[layer] = true;
}

void GroupedStep::write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                              const float* v) {
  const LayerPlace& at = place(layer);
  KVICK_CHECK(!at.shared, "layer {} reads the rows of another one and writes none", layer);
  facets_[at.group].pieces->write_piece(at.layer, first, count, k, v);
  written_[layer] = true;
}

void GroupedStep::view(const Query& query, base::Arena& scratch, kernels::View& out) {
  steps_[place(query.layer).group]->view(inside(query), scratch, out);
}

// Checks everything before the first group commits, so that all groups commit or none.
void GroupedStep::commit(const Kept& kept) {
  KVICK_CHECK(!steps_.empty(), "the step is used after its commit");
  KVICK_CHECK_EQ(kept.rows.size(), fresh_.size());
  for (size_t slot = 0; slot < fresh_.size(); ++slot)
    check_kept_rows(kept.rows[slot], fresh_[slot]);
  for (uint32_t layer = 0; layer < written_.size(); ++layer)
    KVICK_CHECK(written_[layer] || store_.places_[layer].shared, "layer {} was never written",
                layer);
  for (const auto& step : steps_) step->commit(kept);
  end();
}

StepFacets GroupedStep::facets() {
  StepFacets all;
  bool sinks = true, pieces = true;
  for (const StepFacets& one : facets_) {
    if (one.inputs != nullptr) all.inputs = this;
    if (one.observer != nullptr) all.observer = this;
    if (one.slots != nullptr) all.slots = this;
    if (one.states != nullptr) all.states = this;
    all.per_query = all.per_query || one.per_query;
    sinks = sinks && one.sink != nullptr;
    pieces = pieces && one.pieces != nullptr;
  }
  if (sinks) all.sink = this;
  if (pieces) all.pieces = this;
  return all;
}

void GroupedStep::inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) {
  const LayerPlace& at = place(layer);
  InputReader* const reader = facets_[at.group].inputs;
  if (reader != nullptr && !at.shared) reader->inputs(at.layer, x, positions);
}

uint32_t GroupedStep::apart(uint32_t layer) const {
  const LayerPlace& at = place(layer);
  const Observer* const observer = facets_[at.group].observer;
  return observer != nullptr ? observer->apart(at.layer) : kQueriesOnly;
}

void GroupedStep::observe(const Query& query, const kernels::View& view,
                          std::span<const float> probs) {
  Observer* const observer = facets_[place(query.layer).group].observer;
  if (observer != nullptr) observer->observe(inside(query), view, probs);
}

void GroupedStep::gates(uint32_t layer, const float* gates) {
  const LayerPlace& at = place(layer);
  facets_[at.group].slots->gates(at.layer, gates);
}

void GroupedStep::carry(uint32_t layer, const float* x) {
  const LayerPlace& at = place(layer);
  facets_[at.group].slots->carry(at.layer, x);
}

const float* GroupedStep::carried(uint32_t layer, uint32_t slot) const {
  const LayerPlace& at = place(layer);
  return facets_[at.group].slots->carried(at.layer, slot);
}

void GroupedStep::read(uint32_t layer, const SlotQueries& queries) {
  const LayerPlace& at = place(layer);
  facets_[at.group].slots->read(at.layer, queries);
}

std::span<const std::byte> GroupedStep::state(uint32_t layer, uint32_t slot) const {
  const LayerPlace& at = place(layer);
  return facets_[at.group].states->state(at.layer, slot);
}

std::span<std::byte> GroupedStep::state_after(uint32_t layer, uint32_t slot, uint32_t row) {
  const LayerPlace& at = place(layer);
  return facets_[at.group].states->state_after(at.layer, slot, row);
}

void GroupedStep::put(std::span<const std::byte> rows) {
  KVICK_CHECK(!steps_.empty(), "the step is used after its commit");
  KVICK_CHECK(fresh_.size() == 1, "rows of one sequence in a step of {}", fresh_.size());
  KVICK_CHECK_EQ(rows.size(), fresh_[0] * store_.info().token_bytes());
  for (size_t g = 0; g < steps_.size(); ++g) {
    const size_t bytes = fresh_[0] * store_.info().groups[g].token_bytes();
    facets_[g].sink->put(rows.first(bytes));
    rows = rows.subspan(bytes);
  }
  written_.assign(written_.size(), true);
}

}  // namespace kvick::kv
