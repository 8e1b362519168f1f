#include "kv/contract/checked_step.h"

#include <algorithm>

#include "base/check.h"
#include "kv/contract/checked_store.h"

namespace kvick::kv {

CheckedStep::CheckedStep(CheckedStore& store, std::vector<Place> places)
    : store_(store),
      places_(std::move(places)),
      written_(store.shape().layers),
      read_(store.shape().layers) {}

CheckedStep::~CheckedStep() {
  if (store_.live_ != this) return;
  store_.live_ = nullptr;
  store_.settle();
}

void CheckedStep::gates(uint32_t layer, const float* gates) {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
  KVICK_CHECK(!written_[layer], "gates of layer {} come after its rows", layer);
  write_gates(layer, gates);
}

void CheckedStep::write_gates(uint32_t, const float*) {
  KVICK_CHECK(false, "gates() of a strategy that shows rows: they have none");
}

void CheckedStep::carry(uint32_t layer, const float* x) {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
  write_carried(layer, x);
}

void CheckedStep::write_carried(uint32_t, const float*) {
  KVICK_CHECK(false, "carry() of a strategy that shows rows: they carry nothing");
}

const float* CheckedStep::carried(uint32_t layer, uint32_t slot) const {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
  KVICK_CHECK(slot < places_.size(), "slot {} of {}", slot, places_.size());
  return carried_of(layer, slot);
}

const float* CheckedStep::carried_of(uint32_t, uint32_t) const {
  KVICK_CHECK(false, "carried() of a strategy that shows rows: they carry nothing");
}

void CheckedStep::write(uint32_t layer, const float* k, const float* v) {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
  KVICK_CHECK(!written_[layer], "layer {} is written twice", layer);
  write_rows(layer, k, v);
  written_[layer] = true;
}

void CheckedStep::view(const Ask& ask, base::Arena& scratch, kernels::View& out) {
  check_ask(ask);
  view_rows(ask, scratch, out);
}

void CheckedStep::observe(const Ask& ask, const kernels::View& view, std::span<const float> probs) {
  check_ask(ask);
  observe_rows(ask, view, probs);
}

void CheckedStep::read(uint32_t layer, const Reading& reading) {
  check_live();
  KVICK_CHECK(layer < written_.size(), "layer {} of {}", layer, written_.size());
  KVICK_CHECK(written_[layer], "layer {} is read before it is written", layer);
  KVICK_CHECK(!read_[layer], "layer {} is read twice", layer);
  KVICK_CHECK(reading.group > 0, "{} queries a token", reading.group);
  KVICK_CHECK(reading.paths.empty() || reading.paths.size() == places_.size(),
              "paths of {} slots in a batch of {}", reading.paths.size(), places_.size());
  read_rows(layer, reading);
  read_[layer] = true;
}

void CheckedStep::read_rows(uint32_t, const Reading&) {
  KVICK_CHECK(false, "read() of a strategy that shows rows: view() them");
}

void CheckedStep::commit(const Kept& kept) {
  check_live();
  check_kept(kept);
  keep_all(kept);
  ended_ = true;
  store_.live_ = nullptr;
  store_.settle();
}

void CheckedStep::keep_all(const Kept& kept) {
  for (uint32_t slot = 0; slot < places_.size(); ++slot) keep_rows(slot, kept.rows[slot]);
}

void CheckedStep::check_live() const { KVICK_CHECK(!ended_, "the step is used after its commit"); }

void CheckedStep::check_ask(const Ask& ask) const {
  check_live();
  const Shape& shape = store_.shape();
  KVICK_CHECK(ask.slot < places_.size(), "slot {} of {}", ask.slot, places_.size());
  KVICK_CHECK(ask.layer < shape.layers, "layer {} of {}", ask.layer, shape.layers);
  KVICK_CHECK(ask.head < shape.kv_heads, "KV head {} of {}", ask.head, shape.kv_heads);
  KVICK_CHECK(written_[ask.layer], "layer {} is viewed before it is written", ask.layer);
}

void CheckedStep::check_kept(const Kept& kept) const {
  KVICK_CHECK_EQ(kept.rows.size(), places_.size());
  const auto missing = std::find(written_.begin(), written_.end(), false);
  KVICK_CHECK(missing == written_.end(), "layer {} was never written", missing - written_.begin());
  for (size_t slot = 0; slot < places_.size(); ++slot) {
    const std::vector<uint32_t>& rows = kept.rows[slot];
    for (size_t i = 0; i < rows.size(); ++i) {
      KVICK_CHECK(rows[i] < places_[slot].fresh, "row {} of {} is kept", rows[i],
                  places_[slot].fresh);
      KVICK_CHECK(i == 0 || rows[i - 1] < rows[i], "row {} is kept after row {}", rows[i],
                  rows[i - 1]);
    }
  }
}

}  // namespace kvick::kv
