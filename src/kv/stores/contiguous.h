#pragma once
// A layout: the keys, and the values, of one sequence, layer and KV head are in one region each, as
// rows [capacity][head_dim]. Fresh rows are written directly into the spare rows behind the
// committed ones. Committing a chain only raises the length; committing a path of a tree closes its
// gaps. The strategy provides the regions.

#include "kv/rows/layer_rows.h"
#include "kv/rows/row_store.h"

namespace kvick::kv {

struct ContiguousSequence : Sequence {
  std::vector<LayerRows> layers;
  uint32_t base = 0;  // first row stored in every region; at most `first`
};

class ContiguousStore : public RowStore {
 public:
  using RowStore::RowStore;

  void add_runs(const Sequence& sequence, uint32_t begin, uint32_t end,
                std::vector<kernels::Run>& runs) const final;
  kernels::Segment segment(const Sequence& sequence, uint32_t layer, uint32_t head) const final;
  std::vector<MapEntry> map() const override;

 protected:
  // Makes room for length + fresh rows in every slot's sequence, or changes nothing.
  virtual base::Status<Shortage> make_room(std::span<const StepSlot> step_slots) = 0;
  // Makes an empty sequence with room for the committed rows of `from` (sequence `id`), and with
  // its `first`.
  virtual SequenceOr make_room_for_fork(SeqId id, const ContiguousSequence& from) = 0;
  // Returns the rows of a layer, spare ones included, that a kernel may read as numbers.
  virtual kernels::Bucket bucket_of(const ContiguousSequence& sequence, uint32_t layer) const = 0;
  // Returns the sequence's part of allocated_bytes_; no byte counts for two sequences.
  virtual uint64_t sequence_bytes(const ContiguousSequence& sequence) const = 0;
  // Called before a layer is written: its rows before `rows` are in use from now on. wrote()
  // follows once they are written.
  virtual void use(ContiguousSequence& sequence, uint32_t layer, uint32_t rows) = 0;
  virtual void wrote(ContiguousSequence&, uint32_t) {}
  // Called when the rows past the committed ones are no longer needed; committed: false if the step
  // was dropped.
  virtual void settle(ContiguousSequence&, bool /*committed*/) {}
  // Copies the committed rows from `begin` on into a sequence that has room for them.
  void copy_rows(const ContiguousSequence& from, uint32_t begin, ContiguousSequence& to);

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  StepOr start(std::vector<StepSlot> step_slots) final;
  Usage count() const override;
  uint64_t held_bytes() const final { return allocated_bytes_; }

  uint64_t allocated_bytes_ = 0, copied_bytes_ = 0;

 private:
  friend class ContiguousStep;
};

}  // namespace kvick::kv
