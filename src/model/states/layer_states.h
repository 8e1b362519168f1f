#pragma once
// The states of one layer in a step (kv::StateKeeper), in the form that the layer's blocks use.
//
// Blocks compute with float32. A store may keep bfloat16 (state_type.h); then blocks get copies in
// float32, and done() rounds the states that the store keeps. So a state is rounded once per step,
// after the step's last token. Draft tokens are the exception: any of them may become the last one,
// so each is followed by the rounded state, as if it had been a step of its own.

#include <vector>

#include "model/blocks/block.h"

namespace kvick::model {

// A token with the layer's state before and after it. Both point to the same memory, which is
// updated in place, if the state between two tokens is not needed.
struct StateRow {
  uint32_t token = 0;  // index in the batch
  const float* before = nullptr;
  float* after = nullptr;
  bool rounds = false;  // `after` must have values of bfloat16 before another row reads it

  // A block calls this when it no longer needs the exact floats [first, first + count) of `after`.
  void finish(const kernels::Table& kernels, size_t first, size_t count) const {
    if (rounds) round(kernels, first, count);
  }

 private:
  void round(const kernels::Table& kernels, size_t first, size_t count) const;
};

// The tokens of each slot in order: a token's predecessor, or its parent in a draft tree, comes
// before it. A block fills `after` of every row, writing and finishing each float from one thread,
// and then calls done().
class LayerStates {
 public:
  LayerStates(const Pass& pass, uint32_t layer);

  uint32_t slots() const { return static_cast<uint32_t>(first_.size() - 1); }
  std::span<const StateRow> rows(uint32_t slot) const {
    return std::span(rows_).subspan(first_[slot], first_[slot + 1] - first_[slot]);
  }
  void done();

 private:
  // A state of bfloat16 in the store, and its copy.
  struct Source {
    const std::byte* kept;
    float* copy;
  };
  struct Target {
    const float* copy;
    std::byte* kept;
  };

  void add_slot(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens);
  void add_copies(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens);
  void make_copies(kv::StateKeeper& keeper, const Batch& batch);
  // Calls body(state, first, count) for all floats of `states` states, in pieces.
  using PieceBody = base::FunctionRef<void(size_t state, size_t first, size_t count)>;
  void for_pieces(size_t states, PieceBody body) const;

  kv::Step& step_;
  Workspace& workspace_;
  uint32_t layer_;
  size_t floats_;  // of one state
  std::vector<StateRow> rows_;
  std::vector<size_t> first_ = {0};  // index of each slot's first row, and the end
  // Empty if the store keeps float32.
  std::vector<Source> sources_;
  std::vector<Target> targets_;
  float* next_copy_ = nullptr;
};

}  // namespace kvick::model
