#pragma once
// A layout: keys and values per (sequence, layer, KV head) in one region each, rows
// [capacity][head_dim] behind one another. Fresh rows are written straight into the spare rows
// behind the committed ones, so committing a chain only raises the length; committing a path
// through a tree closes its gaps. Where regions come from is the strategy's.

#include "kv/row_store.h"

namespace kvick::kv {

// Where the rows of one layer are: the regions of all heads' keys, then of all heads' values. A
// region of values may be smaller or larger than one of keys.
struct LayerRows {
  std::byte* data = nullptr;
  size_t k_bytes = 0, v_bytes = 0;  // of one region
  uint32_t heads = 0;

  // Region of a head, and of its values.
  std::byte* region(uint32_t head, bool is_v) const {
    return data + (is_v ? heads * k_bytes + head * v_bytes : head * k_bytes);
  }
};

struct ContiguousSequence : Sequence {
  std::vector<LayerRows> layers;
};

class ContiguousStore : public RowStore {
 public:
  using RowStore::RowStore;

  void add_runs(const Sequence& sequence, uint32_t begin, uint32_t end,
                std::vector<kernels::Run>& runs) const final;
  kernels::Segment segment(const Sequence& sequence, uint32_t layer, uint32_t head) const final;

 protected:
  // Room for length + fresh rows in every place, or no change.
  virtual base::Status<Shortage> make_room(std::span<const Place> places) = 0;
  // An empty sequence with room for `rows` rows, which a fork of `id` will fill.
  virtual SequenceOr make_room_for_fork(SeqId id, uint32_t rows) = 0;
  // Rows [0, rows) of a layer are in use from now on.
  virtual void use(ContiguousSequence& sequence, uint32_t layer, uint32_t rows) = 0;

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) final;
  StepOr start(std::vector<Place> places) final;
  Usage count() const override;

  uint64_t allocated_bytes_ = 0, copied_bytes_ = 0;

 private:
  friend class ContiguousStep;
};

}  // namespace kvick::kv
