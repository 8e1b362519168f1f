#pragma once
// Layers that keep a state of a fixed size of each sequence, and no rows (LayerSpec::kState).
//
// A step writes the states after its tokens into memory of its own, and commit takes the one after
// the last token that is kept: a dropped step leaves the old state, and of a tree of drafts the
// kept path's is there. When a sequence is closed its state stays as a checkpoint, from which
// prompts that begin with the same tokens go on; checkpoints are evicted like cached rows.

#include <list>

#include "kv/rows/row_block.h"
#include "kv/strategy/checked_store.h"

namespace kvick::kv {

struct StateSequence : Sequence {
  RowBlock state;  // [layers][state bytes]; none before the first token
  Owner owner;
  std::vector<Token> tokens;  // committed ones, if they are known
  bool known = true;
};

class StateStore final : public CheckedStore {
 public:
  // setup.shape.layers layers, which keep so many bytes each.
  StateStore(const Setup& setup, uint64_t state_bytes)
      : CheckedStore(setup), state_bytes_(state_bytes) {}

  std::vector<MapEntry> map() const override;

 private:
  friend class StateStep;

  // A state that a prompt may go on from.
  struct Checkpoint {
    uint64_t salt = 0;
    int32_t priority = 0;
    std::vector<Token> tokens;
    RowBlock state;
  };

  static StateSequence& mine(Sequence& sequence) { return static_cast<StateSequence&>(sequence); }
  uint64_t sequence_bytes() const { return shape().layers * state_bytes_; }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;
  RowBlock copy_of(const RowBlock& state) const;
  // Room for so many more bytes of own ones, for which checkpoints may have to go.
  std::optional<Shortage> claim(uint64_t bytes, std::string_view what);

  uint64_t held_bytes() const override { return own_bytes_ + cached_bytes(); }
  uint64_t cached_bytes() const override { return checkpoints_.size() * sequence_bytes(); }
  uint64_t evict(uint64_t bytes) override;
  Usage count() const override;

  uint64_t state_bytes_;
  uint64_t own_bytes_ = 0, copied_bytes_ = 0;  // own: of sequences and of the live step
  std::list<Checkpoint> checkpoints_;          // the one used last first
};

}  // namespace kvick::kv
