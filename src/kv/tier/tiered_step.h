#pragma once
// Internal to kv/tier: see tiered.h.

#include <atomic>
#include <mutex>
#include <vector>

#include "kv/tier/tiered_store.h"

namespace kvick::kv {

class TieredStep final : public CheckedStep, public RowFetcher {
 public:
  // extents: for the units that fresh rows fill. kept_units: how many of the committed units that
  // the step reads, in order [layer][slot, unit][head], stay in frames; the others pass through.
  TieredStep(TieredStore& store, std::vector<StepSlot> step_slots, std::vector<uint32_t> extents,
             uint64_t kept_units);
  ~TieredStep() override;
  TieredStep(const TieredStep&) = delete;
  TieredStep& operator=(const TieredStep&) = delete;

  StepFacets facets() override { return {.fetcher = this}; }
  void view_some(const Query& query, std::span<const uint32_t> rows, base::Arena& scratch,
                 kernels::View& out) override;
  void prefetch(const Query& query, std::span<const uint32_t> rows) override;

 private:
  static constexpr uint32_t kNoLayer = UINT32_MAX;
  struct FullUnit {
    TieredSequence* of;
    uint32_t unit;
  };
  // Units of one layer that views may show.
  struct Pinned {
    uint32_t layer = kNoLayer;
    uint64_t tried = 0;  // of the layer's units, in order
    std::vector<Unit> units;
    std::vector<uint64_t> numbers;  // of each among all layers'
  };

  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  TieredSequence& sequence(uint32_t slot) const {
    return static_cast<TieredSequence&>(*step_slots()[slot].sequence);
  }
  uint64_t units_of_layer() const { return full_.size() * store_.layout_.heads; }
  // Pins the units of `rows` in one layer and head, and appends those that it could pin.
  void pin_some(const Query& query, std::span<const uint32_t> rows, Frames::Patience patience,
                std::vector<Unit>& pinned);
  void unpin_chosen(uint32_t but_layer);
  kernels::Segment segment(const Query& query) const;
  std::byte* row(const TieredSequence& sequence, uint32_t layer, uint32_t head,
                 uint64_t token) const;
  std::span<const kernels::Run> runs(const Query& query, uint32_t begin, uint32_t end,
                                     base::Arena& scratch) const;

  void load(uint32_t layer);
  void pin(Pinned& pinned, Frames::Patience patience);
  void unpin(Pinned& pinned);
  void store_full(TieredSequence& sequence, uint32_t first_unit);
  void release();

  TieredStore& store_;
  std::vector<uint32_t> extents_;  // not used yet
  uint64_t kept_units_;
  std::vector<FullUnit> full_;  // before the step, of the slots that show all their rows
  // Whether full_ covers all slots; if not, nothing is read ahead, since its frames are needed for
  // the rows that view_some() asks for.
  bool ahead_ = true;
  std::mutex loading_;
  std::atomic<uint32_t> layer_ = kNoLayer;  // of current_, once its rows are there
  Pinned current_, next_;
  std::mutex choosing_;
  std::atomic<uint32_t> chosen_layer_ = kNoLayer;  // that view_some was last called for
  std::vector<std::pair<uint32_t, Unit>> chosen_;  // pinned by view_some and prefetch, by layer
  bool released_ = false;
};

}  // namespace kvick::kv
