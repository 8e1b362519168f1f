#pragma once
// Internal to the policies that leave rows in place: a store of any strategy with a Selector
// (selector.h) in front of it. If the inner store keeps rows in a slower tier, rows are fetched
// after they are chosen (RowFetcher), and summarised by commit, before they leave memory.

#include <atomic>

#include "kv/rows/row_block.h"
#include "kv/rows/row_store.h"
#include "kv/select/meter.h"
#include "kv/select/selecting.h"
#include "kv/tier/tier.h"

namespace kvick::kv {

// Slots with more fresh rows read all committed rows, as prompts do in all the papers.
inline constexpr uint32_t kMostSelecting = 32;
inline bool chooses(const StepSlot& step_slot) {
  return !step_slot.reads_all && step_slot.fresh <= kMostSelecting;
}

struct SelectSequence : Sequence {
  SeqId inner{};
  uint32_t summarised = 0;  // number of rows, from row 0
  // One block per SummaryShape::rows rows, [layer][head][bytes]; shared with forks until either
  // side adds to it.
  std::vector<SummaryBlock> summaries;
  Meter meter;
};

class SelectStore final : public CheckedStore, public RowMover, public Buckets {
 public:
  // rows: the same store as `inner`, or null if its rows are in a slower tier. foresees: whether
  // that tier reads rows ahead (RowFetcher::prefetch).
  SelectStore(const Setup& setup, std::unique_ptr<CheckedStore> inner, const RowStore* rows,
              std::unique_ptr<const Selector> selector, bool foresees = false);

  StoreFacets facets() override;
  uint32_t spare_rows(SeqId seq) const override {
    return inner_->facets().buckets->spare_rows(mine(find(seq)).inner);
  }
  void read_rows(SeqId seq, uint32_t first, uint32_t count,
                 std::span<std::byte> out) const override;
  uint32_t first_row(SeqId seq) const override { return find(seq).first; }
  void hold_rows(SeqId seq, uint32_t from) override { (void)seq, (void)from; }
  std::vector<MapEntry> map() const override;
  double idle_seconds() const override { return inner_->idle_seconds(); }

 private:
  friend class SelectStep;

  std::string failure_of(const Sequence& sequence) const override {
    return inner_->failure(static_cast<const SelectSequence&>(sequence).inner);
  }
  bool ran_out_of_memory_of(const Sequence& sequence) const override {
    return inner_->ran_out_of_memory(static_cast<const SelectSequence&>(sequence).inner);
  }
  static SelectSequence& mine(Sequence& sequence) { return static_cast<SelectSequence&>(sequence); }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;

  size_t block_bytes() const;
  uint32_t blocks_for(uint32_t rows) const;
  bool keeps_by_commit() const { return rows_ == nullptr || selector_->has_side_rows(); }
  // Rows of a sequence whose summaries or side rows begin or commit will write.
  struct Pending {
    uint32_t begin, end;
  };
  Pending pending(const StepSlot& step_slot) const;
  // Returns how many blocks the pending rows need that are missing or shared with a fork.
  uint32_t needed_blocks(const StepSlot& step_slot) const;
  SummaryBlock make_block();  // throws std::bad_alloc
  // Moves the blocks that the sequence needs from the front of `made` to it.
  void install(const StepSlot& step_slot, std::span<SummaryBlock>& made);
  void summarise(std::span<const StepSlot> step_slots);
  // Returns a sequence's summaries, and the rows' segment (without runs) unless rows are in a tier.
  RowsOfHead rows_of(const SelectSequence& sequence, uint32_t layer, uint32_t head) const;
  // Returns a Shortage if summaries cannot grow by `own` bytes; else limits the inner store to the
  // remaining bytes.
  std::optional<Shortage> claim(uint64_t own, const std::string& what);

  // Returns the bytes of the inner store that begin() cannot evict.
  uint64_t inner_bytes() const {
    const Usage usage = inner_->usage();
    return usage.allocated_bytes - usage.cached_bytes;
  }
  uint64_t held_bytes() const override { return own_bytes_->load(std::memory_order_relaxed); }
  uint64_t cached_bytes() const override { return inner_->usage().cached_bytes; }
  uint64_t evict(uint64_t bytes) override { return inner_->shrink(bytes); }
  Usage count() const override;

  std::unique_ptr<CheckedStore> inner_;
  const RowStore* rows_;
  std::unique_ptr<const Selector> selector_;
  SummaryShape summary_;
  const bool foresees_;
  // Bytes of summaries. Each block subtracts its own bytes when freed, and the last one may outlive
  // the store; hence shared.
  std::shared_ptr<std::atomic<uint64_t>> own_bytes_ = std::make_shared<std::atomic<uint64_t>>(0);
  uint64_t copied_bytes_ = 0;
  std::atomic<uint64_t> read_bytes_ = 0;  // by views
  uint64_t checks_ = 0;
  double lost_mass_ = 0;  // sum over the checks
};

// make_select_store with rows in a tier that the caller has made.
base::Result<std::unique_ptr<Store>> make_select_store(const Setup& setup,
                                                       const TierOptions& options,
                                                       std::unique_ptr<Tier> tier,
                                                       std::unique_ptr<const Selector> selector);

}  // namespace kvick::kv
