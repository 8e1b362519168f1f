#include "model/states/layer_states.h"

namespace kvick::model {
namespace {

float* floats_of(std::span<std::byte> state) { return reinterpret_cast<float*>(state.data()); }

}  // namespace

LayerStates::LayerStates(const Pass& pass, uint32_t layer) : step_(pass.step), layer_(layer) {
  kv::StateKeeper* const keeper = pass.step.facets().states;
  KVICK_CHECK(keeper != nullptr, "layer {} keeps a state, and the step has none", layer);
  KVICK_CHECK(pass.tokens == pass.batch.tokens(), "{} of {} tokens of a layer with a state",
              pass.tokens, pass.batch.tokens());
  rows_.reserve(pass.tokens);
  for (uint32_t slot = 0; slot < pass.batch.slots.size(); ++slot)
    add_slot(*keeper, slot, pass.batch.slots[slot]);
}

// If all tokens of a slot will be kept, only the last one has its own state; the other tokens'
// states are intermediate and share its memory.
void LayerStates::add_slot(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens) {
  const auto count = static_cast<uint32_t>(tokens.tokens.size());
  const auto* const committed = reinterpret_cast<const float*>(keeper.state(layer_, slot).data());
  float* const last = floats_of(keeper.state_after(layer_, slot, count - 1));
  const size_t first = rows_.size();
  for (uint32_t row = 0; row < count; ++row) {
    const std::span<std::byte> own = keeper.state_after(layer_, slot, row);
    const int32_t parent =
        tokens.parents.empty() ? static_cast<int32_t>(row) - 1 : tokens.parents[row];
    rows_.push_back(
        {.token = static_cast<uint32_t>(rows_.size()),
         .before = parent < 0 ? committed : rows_[first + static_cast<size_t>(parent)].after,
         .after = own.empty() ? last : floats_of(own)});
  }
  first_.push_back(rows_.size());
}

}  // namespace kvick::model
