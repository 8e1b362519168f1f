#pragma once
// For models in which no layer keeps anything: encoders, whose steps read only their own rows.
// Keeps only a sequence's length.

#include "kv/strategy/checked_store.h"

namespace kvick::kv {

class EmptyStore final : public CheckedStore {
 public:
  // setup.shape: max_tokens is set, and there are no layers.
  explicit EmptyStore(const Setup& setup) : CheckedStore(setup) {}

  std::vector<MapEntry> map() const override { return {}; }

 private:
  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;
  Usage count() const override { return {}; }
  uint64_t held_bytes() const override { return 0; }
};

}  // namespace kvick::kv
