#pragma once
// Internal to SelectStore: wraps a step of the inner store. Its views show the rows that the policy
// chooses, and some of them check the policy (meter.h).

#include <atomic>
#include <memory>
#include <vector>

#include "kv/select/select_store.h"

namespace kvick::kv {

class SelectStep final : public CheckedStep, public InputReader, public RowSink {
 public:
  SelectStep(SelectStore& store, std::vector<StepSlot> step_slots, std::unique_ptr<Step> inner);

  StepFacets facets() override {
    return {.inputs = store_.selector_->has_side_rows() ? this : nullptr,
            .sink = store_.facets().rows != nullptr ? this : nullptr,
            .per_query = true};
  }
  void put(std::span<const std::byte> rows) override;
  void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) override;

 private:
  // Returns what the slot's queries read in one layer; all() if they read every row.
  TopRows choosing_of(uint32_t slot, uint32_t layer) const;
  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  SelectedRows choose(const Query& query, const TopRows& top_rows, const kernels::View& all,
                      base::Arena& scratch) const;
  void narrow(const TopRows& top_rows, const SelectedRows& choice, base::Arena& scratch,
              kernels::View& out) const;
  uint64_t view_bytes(const kernels::View& view) const;
  void plain_queries(std::span<const float*> queries, base::Arena& scratch) const;
  // Returns whether this view is the one that its slot checks in this step (meter.h).
  bool checks(const Query& query) const;
  // all: the view of all rows.
  float lost_of(const Query& query, const TopRows& top_rows, const SelectedRows& choice,
                const kernels::View& all, base::Arena& scratch) const;
  void note_check(uint32_t slot);

  // Starts to read the rows that will be chosen, if rows are in a slower tier.
  void prefetch(uint32_t layer);
  void summarise(uint32_t slot, std::span<const uint32_t> kept);
  void keep_side_rows(uint32_t slot, std::span<const uint32_t> kept);
  bool failed(uint32_t slot) const;
  size_t side_bytes() const { return store_.summary_.bytes / store_.summary_.rows; }
  uint64_t tokens() const { return step_slots().back().first + step_slots().back().fresh; }

  SelectStore& store_;
  std::unique_ptr<Step> inner_;
  RowFetcher* fetcher_ = nullptr;  // the inner step's, if its rows are in a slower tier; else null
  // Side rows of the fresh rows, [layers][tokens][kv_heads], and project()'s predictions for the
  // layer that is being computed (predicted_layer_).
  std::vector<std::byte> side_;
  std::vector<float> predicted_;
  uint32_t predicted_layer_ = UINT32_MAX;
  // Per slot, the lost mass that its check found; negative: no check. Atomic because views of one
  // step are made on many threads.
  std::vector<std::atomic<float>> lost_;
};

}  // namespace kvick::kv
