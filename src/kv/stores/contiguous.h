#pragma once
// A layout: keys and values per (sequence, layer, KV head) in one region each, rows
// [capacity][head_dim] behind one another. Fresh rows are written straight into the spare rows
// behind the committed ones, so committing a chain only raises the length; committing a path
// through a tree closes its gaps. Where regions come from is the strategy's.

#include "kv/rows/layer_rows.h"
#include "kv/rows/row_store.h"

namespace kvick::kv {

struct ContiguousSequence : Sequence {
  std::vector<LayerRows> layers;
  uint32_t base = 0;  // the row that lies first in every region; at most `first`
};

class ContiguousStore : public RowStore {
 public:
  using RowStore::RowStore;

  void add_runs(const Sequence& sequence, uint32_t begin, uint32_t end,
                std::vector<kernels::Run>& runs) const final;
  kernels::Segment segment(const Sequence& sequence, uint32_t layer, uint32_t head) const final;
  std::vector<MapEntry> map() const override;

 protected:
  // Room for length + fresh rows in every place, or no change.
  virtual base::Status<Shortage> make_room(std::span<const StepSlot> step_slots) = 0;
  // An empty sequence with room for the committed rows of `from`, sequence `id`, and its `first`.
  virtual SequenceOr make_room_for_fork(SeqId id, const ContiguousSequence& from) = 0;
  // Rows of a layer, including spare ones, whose memory may be read as numbers.
  virtual kernels::Bucket bucket_of(const ContiguousSequence& sequence, uint32_t layer) const = 0;
  // The sequence's part of allocated_bytes_; no byte counts for two sequences.
  virtual uint64_t sequence_bytes(const ContiguousSequence& sequence) const = 0;
  // The rows of a layer before `rows` are in use from now on: they will be written, then wrote() is
  // called.
  virtual void use(ContiguousSequence& sequence, uint32_t layer, uint32_t rows) = 0;
  virtual void wrote(ContiguousSequence&, uint32_t) {}
  // Rows past the committed ones are of no use any more; committed: the sequence goes on.
  virtual void settle(ContiguousSequence&, bool /*committed*/) {}
  // Copies committed rows from `begin` on into a sequence that has room for them.
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
