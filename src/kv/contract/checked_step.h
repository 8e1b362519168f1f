#pragma once
// The half of checked_store.h that is about one step.

#include <memory>
#include <span>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::kv {

// What a strategy keeps for one sequence derives from this.
struct Sequence {
  virtual ~Sequence() = default;
  uint32_t length = 0;  // committed tokens
};

// One slot of a live step.
struct Place {
  SeqId id{};
  Sequence* sequence = nullptr;
  uint32_t fresh = 0;
  uint64_t first = 0;             // its first fresh row, of the whole batch's
  std::span<const Token> tokens;  // Slot::tokens
};

class CheckedStore;

class CheckedStep : public Step {
 public:
  CheckedStep(CheckedStore& store, std::vector<Place> places);
  ~CheckedStep() override;
  CheckedStep(const CheckedStep&) = delete;
  CheckedStep& operator=(const CheckedStep&) = delete;

  void gates(uint32_t layer, const float* gates) final;
  void carry(uint32_t layer, const float* x) final;
  const float* carried(uint32_t layer, uint32_t slot) const final;
  void write(uint32_t layer, const float* k, const float* v) final;
  void view(const Ask& ask, base::Arena& scratch, kernels::View& out) final;
  void observe(const Ask& ask, const kernels::View& view, std::span<const float> probs) final;
  void read(uint32_t layer, const Reading& reading) final;
  void commit(const Kept& kept) final;

 protected:
  std::span<const Place> places() const { return places_; }

  // Of a strategy that keeps a memory.
  virtual void write_gates(uint32_t layer, const float* gates);
  virtual void write_carried(uint32_t layer, const float* x);
  virtual const float* carried_of(uint32_t layer, uint32_t slot) const;
  virtual void write_rows(uint32_t layer, const float* k, const float* v) = 0;
  virtual void view_rows(const Ask& ask, base::Arena& scratch, kernels::View& out) = 0;
  virtual void observe_rows(const Ask&, const kernels::View&, std::span<const float>) {}
  // Of a strategy that keeps a memory; then view_rows is not called.
  virtual void read_rows(uint32_t layer, const Reading& reading);
  bool was_read(uint32_t layer) const { return read_[layer]; }
  // The fresh rows of a layer are there, though nobody called write.
  void mark_written(uint32_t layer) { written_[layer] = true; }
  // Keeps these rows of one slot, ascending, and sets the sequence's length.
  virtual void keep_rows(uint32_t slot, std::span<const uint32_t> rows) = 0;
  // Keeps those of all slots: one after the other, unless a strategy has to know them together.
  virtual void keep_all(const Kept& kept);

 private:
  void check_live() const;
  void check_ask(const Ask& ask) const;
  void check_kept(const Kept& kept) const;

  CheckedStore& store_;
  std::vector<Place> places_;
  std::vector<bool> written_, read_;  // per layer
  bool ended_ = false;
};

}  // namespace kvick::kv
