#pragma once
// Internal to kv/aging: see aged.h.

#include <algorithm>

#include "kv/rows/row_buffer.h"
#include "kv/rows/row_store.h"

namespace kvick::kv {

struct AgedSequence : Sequence {
  SeqId old{};  // of the inner store; its length is the number of old rows
  // The recent rows: row r is at r % rows(). The buffer grows with the sequence until it has room
  // for all rows that can be recent at once. Before that no row is old, and r % rows() is r.
  RowBuffer recent;

  void add_runs(uint32_t begin, uint32_t end, std::vector<kernels::Run>& runs) const {
    for (uint32_t row = begin; row < end;) {
      const uint32_t at = row % recent.rows(), n = std::min(end - row, recent.rows() - at);
      runs.push_back({.row = at, .rows = n, .pos = row});
      row += n;
    }
  }
};

// The rows that become old if all of a step's rows are kept, and a step of the inner store with
// room for them.
struct AgingMove {
  std::vector<uint32_t> slots;  // slots of the outer step that have such rows
  std::vector<Slot> old;        // their slots in the inner step
  std::unique_ptr<Step> step;   // null if there are no such rows
  std::vector<float> k, v;      // rows of one layer, in the layout of Step::write
};

class AgedStore final : public CheckedStore {
 public:
  AgedStore(const Setup& setup, std::unique_ptr<RowStore> old)
      : CheckedStore(setup), aging_(*setup.shape.aging), old_(std::move(old)) {}

  std::vector<MapEntry> map() const override;

 private:
  friend class AgedStep;

  static AgedSequence& mine(Sequence& sequence) { return static_cast<AgedSequence&>(sequence); }

  // Returns the rows of the buffer of a sequence with `tokens` tokens.
  uint32_t buffer_rows(uint64_t tokens) const {
    const uint64_t groups = (tokens + kAgingRows - 1) / kAgingRows;
    return static_cast<uint32_t>(std::min<uint64_t>(groups * kAgingRows, aging_.recent_rows()));
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    auto sequence = std::make_unique<AgedSequence>();
    sequence->old = old_->open({}, {}).seq;
    return sequence;
  }

  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;

  void free_sequence(std::unique_ptr<Sequence> sequence) override {
    old_->close(mine(*sequence).old);
    own_bytes_ -= mine(*sequence).recent.bytes();
  }

  StepOr start(std::vector<StepSlot> step_slots) override;
  uint64_t growth_bytes(std::span<const StepSlot> step_slots) const;
  uint32_t buffer_rows(const StepSlot& step_slot) const {
    return buffer_rows(uint64_t{step_slot.sequence->length} + step_slot.fresh);
  }
  // Returns the first row that is still seen and not old.
  uint32_t first_recent_of(const Sequence& sequence) const {
    return std::max(sequence.first, aging_.old_rows(sequence.length));
  }
  bool grows(const StepSlot& step_slot) const {
    return buffer_rows(step_slot) > mine(*step_slot.sequence).recent.rows();
  }
  // Returns whether the fresh rows fit in the sequence's buffer. The rows of a long prompt do not;
  // they get a buffer of their own until the step ends.
  bool fits(const StepSlot& step_slot) const {
    const uint32_t recent =
        step_slot.sequence->length - aging_.old_rows(step_slot.sequence->length);
    return uint64_t{recent} + step_slot.fresh <= buffer_rows(step_slot);
  }
  AgingMove passage_of(std::span<const StepSlot> step_slots) const;
  void grow(AgedSequence& sequence, RowBuffer buffer);

  // Returns a Shortage if this store's own memory cannot grow by `own` bytes; otherwise limits the
  // inner store to the remaining bytes.
  std::optional<Shortage> claim(uint64_t own, const std::string& what) {
    // Most steps need nothing; skip the cost of computing usage() then.
    const uint64_t now = own == 0 ? 0 : own_bytes_ + old_->usage().allocated_bytes;
    if (auto shortage = over_cap(now, now + own, what)) return shortage;
    old_->limit(setup().limits.max_bytes - own_bytes_ - own);
    return std::nullopt;
  }
  // Turns the inner store's Shortage into one of this store, which also needs `own` more bytes.
  Shortage joined(const Shortage& inner, uint64_t own, const std::string& what) const {
    const uint64_t now = own_bytes_ + old_->usage().allocated_bytes;
    return shortage_of(now, now + own + inner.needed_bytes, what).value_or(inner);
  }
  static Shortage refused(uint64_t bytes) {
    return {.needed_bytes = bytes,
            .available_bytes = 0,
            .what = fmt::format("the system refuses {} more bytes of cache", bytes)};
  }

  uint64_t held_bytes() const override { return own_bytes_; }
  Usage count() const override {
    Usage usage = old_->usage();
    uint64_t recent = 0, old = 0;
    for_each_sequence([&](SeqId, const Sequence& sequence) {
      const uint32_t first_recent = first_recent_of(sequence);
      recent += sequence.length - first_recent;
      old += first_recent - sequence.first;
    });
    // The inner store may still keep rows that have left the chunk or the window: they are not
    // used.
    usage.used_bytes = std::min(usage.used_bytes, old * old_->shape().token_bytes());
    usage.used_bytes += recent * shape().token_bytes();
    usage.allocated_bytes += own_bytes_;
    usage.copied_bytes += copied_bytes_;
    return usage;
  }

  Aging aging_;
  std::unique_ptr<RowStore> old_;
  uint64_t own_bytes_ = 0, copied_bytes_ = 0;
};

}  // namespace kvick::kv
