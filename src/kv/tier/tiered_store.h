#pragma once
// Internal to kv/tier: see tiered.h.

#include <atomic>
#include <memory>
#include <vector>

#include "kv/tier/extents.h"
#include "kv/tier/frames.h"
#include "kv/tier/tiered.h"

namespace kvick::kv {

// Layout of rows: a token's key and value are side by side; a unit holds `tokens` tokens of one
// layer and head one after the other; an extent holds one unit per layer and head as [layer][kv
// head]. A frame holds one unit, so rows can be numbered across all frames.
struct UnitLayout {
  uint32_t tokens = 0;
  uint32_t heads = 0;     // KV heads of a layer
  uint32_t regions = 0;   // layers * heads
  size_t pair_bytes = 0;  // a key and its value
  size_t bytes = 0;       // size of a unit
  bool loads = false;     // rows are loaded from where they are in the tier
  // `regions` units, in whole pages; where rows are loaded, in whole rows, so that they can be
  // numbered across the tier.
  uint64_t extent_bytes = 0;

  UnitLayout(const Shape& shape, uint32_t unit_tokens, bool loads);
  // Returns the smallest number of tokens whose unit is a whole number of disk sectors.
  static uint32_t sector_tokens(const Shape& shape);
  uint32_t full(uint64_t rows) const { return static_cast<uint32_t>(rows / tokens); }
  uint32_t touched(uint64_t rows) const {
    return static_cast<uint32_t>((rows + tokens - 1) / tokens);
  }
  // Returns the index in TieredSequence::frames of a unit in one layer and head.
  size_t index(uint32_t unit, uint32_t layer, uint32_t head) const {
    return size_t{unit} * regions + layer * heads + head;
  }
};

class TieredStore final : public CheckedStore {
 public:
  TieredStore(const Setup& setup, const UnitLayout& layout, std::unique_ptr<Frames> frames);
  ~TieredStore() override;

  void limit(uint64_t max_bytes) override;

  std::vector<MapEntry> map() const override;

 private:
  friend class TieredStep;

  std::string failure_of(const Sequence& sequence) const override;
  static TieredSequence& mine(Sequence& sequence) { return static_cast<TieredSequence&>(sequence); }
  uint64_t at(const TieredSequence& sequence, size_t index) const {
    const uint32_t extent = sequence.extents[index / layout_.regions];
    return extents_.at(extent) + index % layout_.regions * layout_.bytes;
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return std::make_unique<TieredSequence>();
  }
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  bool copy_units(TieredSequence& from, TieredSequence& to);
  void copy_some(TieredSequence& from, TieredSequence& to, size_t first, size_t end,
                 std::vector<Unit>& units);
  // Returns the largest number of units that a fork copies at a time.
  uint64_t copied_together() const;
  void load_units(const TieredSequence& from, const TieredSequence& to);
  bool copy_tail(const TieredSequence& from, TieredSequence& to);
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  void give_back(Sequence& sequence) override;
  void give_extents(std::span<const uint32_t> extents) noexcept;
  // Returns the number of leading units whose rows are all before the window.
  uint32_t unseen(const Sequence& sequence) const { return layout_.full(sequence.first); }
  // Frees a sequence's frames and extents. False: transfers still use some of them.
  bool release(TieredSequence& sequence);
  void release_closed();

  // The frames and extents that a step needs in addition to solid frames.
  struct Need {
    uint64_t fresh = 0;    // solid frames for fresh rows
    uint64_t layer = 0;    // upper bound on frames for the views of one layer
    uint64_t useful = 0;   // most frames of stored units that the step can use
    uint64_t extents = 0;  // in the slower tier
  };
  // Returns whether the views of a slot show all its rows.
  bool shows_all(const StepSlot& step_slot) const;
  Need need_of(std::span<const StepSlot> step_slots) const;
  uint64_t kept_frames(const Need& need) const;
  StepOr start(std::vector<StepSlot> step_slots) override;
  // Charges what a step needs, and as much more as it can use and the budget has free.
  base::Status<Shortage> claim(const Need& need, const std::string& what);
  // Counts rows of the tier that are loaded, and waits for its channel.
  void begin_load(uint64_t bytes);
  bool take_fresh(std::span<const StepSlot> step_slots);
  void drop_fresh(TieredSequence& sequence);

  Usage count() const override;
  uint64_t held_bytes() const override { return frames_->counts().taken * layout_.bytes; }
  uint64_t cached_bytes() const override;
  uint64_t evict(uint64_t bytes) override;

  UnitLayout layout_;
  std::unique_ptr<Frames> frames_;
  Extents extents_;
  std::vector<std::unique_ptr<Sequence>> closed_;  // closed sequences with transfers under way
  uint64_t copied_bytes_ = 0;
  uint64_t forked_bytes_ = 0;               // written to the tier by load_units()
  std::atomic<uint64_t> loaded_bytes_ = 0;  // from the tier, without frames
};

}  // namespace kvick::kv
