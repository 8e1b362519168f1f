#include "kv/row_store.h"

namespace kvick::kv {

RowStep::RowStep(RowStore& store, std::vector<Place> places)
    : CheckedStep(store, std::move(places)), store_(store) {
  for (const Place& place : this->places()) {
    const uint32_t length = place.sequence->length;
    Runs& runs = runs_.emplace_back();
    store.add_runs(*place.sequence, 0, length, runs.past);
    store.add_runs(*place.sequence, length, length + place.fresh, runs.fresh);
  }
}

void RowStep::view_rows(const Ask& ask, base::Arena&, kernels::View& out) {
  const Runs& runs = runs_[ask.slot];
  kernels::Segment segment = store_.segment(*places()[ask.slot].sequence, ask.layer, ask.head);
  out = {};
  segment.runs = runs.past;
  if (!runs.past.empty()) out.past.push_back(segment);
  segment.runs = runs.fresh;
  out.fresh = segment;
}

}  // namespace kvick::kv
