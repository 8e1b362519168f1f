#pragma once
// A store for layers that keep a state of fixed size per sequence instead of rows
// (LayerSpec::kState).
//
// A step writes the states after its tokens into new memory, and commit keeps the state after the
// last accepted token. So a dropped step leaves the old state, and a tree of draft tokens leaves
// the state of the accepted path. Committed states are never changed, so forks, checkpoints and the
// prompts that resume from them share them. When a sequence is closed, its last state stays as a
// checkpoint.

#include "kv/state/checkpoint_tree.h"
#include "kv/strategy/checked_store.h"

namespace kvick::kv {

struct StateSequence : Sequence {
  SharedState state;  // [layers][state bytes]; null before the first token
  Owner owner;
  std::vector<Token> tokens;  // committed tokens, if known
  bool known = true;
  bool resumed = false;      // from a checkpoint, and no step was committed yet
  bool lacks_state = false;  // rows were put, but not yet the state
};

class StateStore final : public CheckedStore, Checkpoints, RowMover {
 public:
  // setup.shape.layers layers of setup.shape.state_bytes each.
  explicit StateStore(const Setup& setup) : StateStore(setup, setup.shape.max_tokens) {}
  // most_tokens: of one sequence; the states themselves set no limit.
  StateStore(const Setup& setup, uint32_t most_tokens)
      : CheckedStore(setup, most_tokens),
        state_bytes_(setup.shape.state_bytes),
        checkpoints_(setup.sharing.clock) {}

  std::vector<MapEntry> map() const override;
  StoreFacets facets() override {
    const bool shares = setup().sharing.prefixes;
    return {.rows = shares ? this : nullptr,
            .holdings = this,
            .health = this,
            .checkpoints = shares ? this : nullptr};
  }
  double idle_seconds() const override { return checkpoints_.idle_seconds(); }

 private:
  friend class StateStep;

  static StateSequence& mine(Sequence& sequence) { return static_cast<StateSequence&>(sequence); }
  uint64_t sequence_bytes() const { return shape().layers * state_bytes_; }

  void keep(SeqId seq, uint32_t at) override;
  bool only_at_end() const override { return true; }
  uint64_t state_bytes() const override { return sequence_bytes(); }
  void read_state(SeqId seq, std::span<std::byte> out) const override;
  void put_state(SeqId seq, std::span<const std::byte> state) override;
  // This store has no rows of its own.
  void read_rows(SeqId, uint32_t, uint32_t, std::span<std::byte>) const override {}
  uint32_t first_row(SeqId) const override { return 0; }
  void hold_rows(SeqId, uint32_t) override {}
  void keep(const StateSequence& sequence);

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;
  SharedState make_state() const;
  // Makes room for `bytes` more, evicting checkpoints if needed.
  std::optional<Shortage> claim(uint64_t bytes, std::string_view what);

  uint64_t held_bytes() const override { return *held_bytes_; }
  uint64_t cached_bytes() const override { return checkpoints_.unused() * sequence_bytes(); }
  uint64_t evict(uint64_t bytes) override;
  Usage count() const override;

  // A state, the number of sequences that use it, the tokens before it, and the first user.
  struct Held {
    const std::byte* state;
    uint32_t users, tokens;
    SeqId first;
  };
  std::vector<Held> held_states() const;

  uint64_t state_bytes_;
  // Bytes of all states. Shared with their deleters, because sequences may outlive these members.
  std::shared_ptr<uint64_t> held_bytes_ = std::make_shared<uint64_t>(0);
  CheckpointTree checkpoints_;
  uint64_t evicted_ = 0, resumed_ = 0;
};

}  // namespace kvick::kv
