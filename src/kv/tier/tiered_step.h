#pragma once
// Internal to kv/tier: see tiered.h.

#include <atomic>
#include <mutex>
#include <vector>

#include "kv/tier/tiered_store.h"

namespace kvick::kv {

class TieredStep final : public CheckedStep, public RowFetcher {
 public:
  // extents: for the units that fresh rows fill. kept_units: the step reads committed units in the
  // order [layer][slot, unit][head]; the first kept_units of them stay in frames, the others are
  // evicted first.
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
  class Loaded;
  static constexpr uint32_t kNoLayer = UINT32_MAX;
  struct FullUnit {
    TieredSequence* of;
    uint32_t unit;
  };
  // Pinned units of one layer, for its views.
  struct Pinned {
    uint32_t layer = kNoLayer;
    uint64_t tried = 0;  // units of the layer tried so far, in order
    std::vector<Unit> units;
    std::vector<uint64_t> numbers;  // number of each unit in the order of all layers
  };

  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  TieredSequence& sequence(uint32_t slot) const {
    return static_cast<TieredSequence&>(*step_slots()[slot].sequence);
  }
  uint64_t units_of_layer() const { return full_.size() * store_.layout_.heads; }
  // Pins the units of `rows` in one layer and head, and appends the units pinned.
  void pin_some(const Query& query, std::span<const uint32_t> rows, Frames::Patience patience,
                std::vector<Unit>& pinned);
  void unpin_chosen(uint32_t but_layer);
  kernels::Segment segment(const Query& query, const std::byte* rows) const;
  void show_fresh(const Query& query, base::Arena& scratch, kernels::View& out) const;
  std::byte* row(const TieredSequence& sequence, uint32_t layer, uint32_t head,
                 uint64_t token) const;
  std::span<const kernels::Run> runs(const Query& query, uint32_t begin, uint32_t end,
                                     base::Arena& scratch) const;

  void read_layer(uint32_t layer);
  void pin(Pinned& pinned, Frames::Patience patience);
  void unpin(Pinned& pinned);
  void store_full(TieredSequence& sequence, uint32_t first_unit);
  void release();

  TieredStore& store_;
  std::vector<uint32_t> extents_;  // not yet used
  uint64_t kept_units_;
  std::vector<FullUnit> full_;  // committed before the step, of slots whose views show all rows
  // Whether full_ covers all slots. If not, nothing is read ahead, because the frames are needed
  // for the rows that view_some() asks for.
  bool ahead_ = true;
  std::mutex reading_;
  std::atomic<uint32_t> layer_ = kNoLayer;  // layer of current_ once its rows are in frames
  Pinned current_, next_;
  std::mutex choosing_;
  std::atomic<uint32_t> chosen_layer_ = kNoLayer;  // layer of the last call of view_some
  std::vector<std::pair<uint32_t, Unit>> chosen_;  // with layer: pinned by view_some and prefetch
  bool released_ = false;
};

}  // namespace kvick::kv
