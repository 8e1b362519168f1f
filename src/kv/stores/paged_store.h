#pragma once
// Internal to paged.cc.

#include <optional>
#include <span>
#include <vector>

#include "kv/prefix/prefix_tree.h"
#include "kv/rows/row_store.h"
#include "kv/rows/segment.h"

namespace kvick::kv {

struct PagedOptions {
  uint32_t block_rows;
  bool prefix;
  Eviction eviction;
  Pages pages;
};

struct PagedSequence : Sequence {
  Owner owner;
  // By index in the sequence; the first `gone` blocks were given back.
  std::vector<BlockId> blocks;
  uint32_t gone = 0;
  uint32_t held_from = UINT32_MAX;  // RowMover::hold_rows
  // Tokens of the committed rows, up to the first unknown one.
  std::vector<Token> tokens;
  bool known = true;
  // The first `published` blocks are on the tree's path to `tip`; the sequence holds `tip`.
  PrefixTree::Node* tip = nullptr;
  uint32_t published = 0;
  uint32_t checkpoint = 0;  // tokens up to the last checkpoint; their blocks are marked in the tree

  std::span<const BlockId> held() const { return std::span(blocks).subspan(gone); }
};

class PagedStore final : public RowStore, Checkpoints {
 public:
  PagedStore(const Setup& setup, const PagedOptions& options, BlockPool pool)
      : RowStore(setup),
        options_(options),
        pool_(std::move(pool)),
        // With a window the tree may lose blocks that precede those it still has, so nobody
        // watches.
        tree_(pool_, options.eviction, setup.sharing.clock,
              setup.shape.window == 0 ? setup.sharing.watcher : nullptr) {}

  void add_runs(const Sequence& of, uint32_t begin, uint32_t end,
                std::vector<kernels::Run>& runs) const override;
  kernels::Segment segment(const Sequence&, uint32_t layer, uint32_t head) const override {
    return segment_of(setup(), layer, head, pool_.base(layer, head, false),
                      pool_.base(layer, head, true));
  }
  std::vector<MapEntry> map() const override;
  // Without a window any token can serve as a checkpoint.
  StoreFacets facets() override {
    StoreFacets all = RowStore::facets();
    if (options_.prefix && shape().window > 0) all.checkpoints = this;
    return all;
  }
  double idle_seconds() const override { return tree_.idle_seconds(); }
  uint32_t first_row(SeqId seq) const override { return mine(find(seq)).gone * pool_.rows(); }
  void hold_rows(SeqId seq, uint32_t from) override { mine(find(seq)).held_from = from; }

 private:
  friend class PagedStep;

  static PagedSequence& mine(Sequence& sequence) { return static_cast<PagedSequence&>(sequence); }

  uint32_t blocks_for(uint64_t rows) const {
    return static_cast<uint32_t>((rows + pool_.rows() - 1) / pool_.rows());
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                          const Owner& owner) override;
  SequenceOr copy_sequence(SeqId, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  void give_back(Sequence& of) override;
  bool holds_windows() const override { return true; }

  // The blocks that a slot needs in addition to those it has.
  struct Need {
    uint32_t blocks = 0;
    bool copy = false;  // one more, to copy its last block, which it writes into and others use
  };
  std::vector<Need> needs_of(std::span<const StepSlot> step_slots) const;
  StepOr start(std::vector<StepSlot> step_slots) override;
  base::Result<std::vector<BlockId>, Shortage> take(uint64_t count, size_t sequences);
  std::optional<BlockId> take_one();
  void copy_last(PagedSequence& sequence, BlockId to);
  // Gives back the blocks taken for rows that were not kept.
  void drop_fresh(PagedSequence& sequence) noexcept;
  // After a commit: drops fresh blocks and publishes full blocks in the tree. Does not throw
  // std::bad_alloc.
  void settle(PagedSequence& sequence);
  void publish_full(PagedSequence& sequence);
  void publish_tail(PagedSequence& sequence);
  void keep(SeqId seq, uint32_t at) override;
  bool only_at_end() const override { return false; }
  void mark_window(PagedSequence& sequence, uint32_t at);

  uint64_t held_bytes() const override { return pool_.taken() * pool_.block_bytes(); }
  uint64_t cached_bytes() const override { return tree_.unused() * pool_.block_bytes(); }
  uint64_t evict(uint64_t bytes) override {
    const uint64_t before = held_bytes();
    while (before - held_bytes() < bytes && tree_.evict()) continue;
    return before - held_bytes();
  }

  // The use of one block by open sequences.
  struct Held {
    uint32_t users = 0;
    uint32_t most = 0, two = 0;  // rows: most used by one sequence, and by at least two
    SeqId first{};               // the first user
  };
  std::vector<Held> held_blocks() const;
  Usage count() const override;

  PagedOptions options_;
  BlockPool pool_;
  PrefixTree tree_;
  uint64_t copied_bytes_ = 0;
};

class PagedStep final : public RowStep {
 public:
  PagedStep(PagedStore& store, std::vector<StepSlot> step_slots)
      : RowStep(store, std::move(step_slots)), store_(store) {}
  ~PagedStep() override;
  PagedStep(const PagedStep&) = delete;
  PagedStep& operator=(const PagedStep&) = delete;

 private:
  void use(uint32_t) override {}
  std::byte* fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                       uint32_t i) const override;
  void write_fresh(const LayerInput& input) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  PagedSequence& sequence(uint32_t slot) const {
    return static_cast<PagedSequence&>(*step_slots()[slot].sequence);
  }

  PagedStore& store_;
  bool ended_ = false;
};

}  // namespace kvick::kv
