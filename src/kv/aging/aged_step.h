#pragma once
// Internal to kv/aging: see aged.h.

#include "kv/aging/aged_store.h"

namespace kvick::kv {

class AgedStep final : public CheckedStep {
 public:
  // fresh: per slot a buffer for its rows, whose bytes the store counts until the step ends; empty
  // if the rows fit in the sequence's buffer.
  AgedStep(AgedStore& store, std::vector<StepSlot> step_slots, std::vector<RowBuffer> fresh,
           AgingMove passage);
  ~AgedStep() override { release(); }
  AgedStep(const AgedStep&) = delete;
  AgedStep& operator=(const AgedStep&) = delete;

 private:
  struct Runs {
    std::vector<kernels::Run> old, recent, fresh;
  };
  // A row in the sequence's buffer or the step's. No buffer: the inner step has room for this row,
  // but it does not become old, because commit kept fewer fresh rows.
  struct Source {
    const RowBuffer* buffer = nullptr;
    uint32_t row = 0;
  };

  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  AgedSequence& sequence(uint32_t slot) const {
    return static_cast<AgedSequence&>(*step_slots()[slot].sequence);
  }
  Source fresh_row(uint32_t slot, uint32_t i) const {
    if (fresh_[slot].rows() > 0) return {&fresh_[slot], i};
    const AgedSequence& sequence = this->sequence(slot);
    return {&sequence.recent, (sequence.length + i) % sequence.recent.rows()};
  }
  void pass(const Kept& kept);
  void read_layer(uint32_t layer, std::span<const Source> sources);
  void release() {
    for (const RowBuffer& buffer : fresh_) store_.own_bytes_ -= buffer.bytes();
    fresh_.clear();  // so that the bytes are subtracted once: commit and destructor call this
  }

  AgedStore& store_;
  std::vector<RowBuffer> fresh_;  // per slot
  AgingMove passage_;
  std::vector<Runs> runs_;  // per slot; views point into it
};

}  // namespace kvick::kv
