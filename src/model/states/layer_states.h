#pragma once
// The states of one layer in a step (kv::StateKeeper), in the form that the layer's blocks use.

#include <vector>

#include "model/blocks/block.h"

namespace kvick::model {

// A token with the layer's state before and after it. Both point to the same memory, which is
// updated in place, if the state between two tokens is not needed.
struct StateRow {
  uint32_t token = 0;  // index in the batch
  const float* before = nullptr;
  float* after = nullptr;
};

// The tokens of each slot in order: a token's predecessor, or its parent in a draft tree, comes
// before it. A block fills `after` of every row, writing each float from one thread, and then calls
// done().
class LayerStates {
 public:
  LayerStates(const Pass& pass, uint32_t layer);

  uint32_t slots() const { return static_cast<uint32_t>(first_.size() - 1); }
  std::span<const StateRow> rows(uint32_t slot) const {
    return std::span(rows_).subspan(first_[slot], first_[slot + 1] - first_[slot]);
  }
  void done() { step_.write(layer_, nullptr, nullptr); }

 private:
  void add_slot(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens);

  kv::Step& step_;
  uint32_t layer_;
  std::vector<StateRow> rows_;
  std::vector<size_t> first_ = {0};  // index of each slot's first row, and the end
};

}  // namespace kvick::model
