#pragma once
// The part of checked_store.h that checks one step.

#include <memory>
#include <span>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::kv {

// Base of what a strategy keeps for one sequence.
struct Sequence {
  virtual ~Sequence() = default;
  uint32_t length = 0;  // committed tokens
  uint32_t first = 0;   // rows before this one were given back (Shape::window)
  uint32_t seen = 0;    // Opened::seen, if greater than `length`; else 0
  // A commit ran out of memory half-way: the rows must not be used.
  bool lost = false;
};

// One slot of a live step.
struct StepSlot {
  SeqId id{};
  Sequence* sequence = nullptr;
  uint32_t fresh = 0;
  uint64_t first = 0;             // index of its first fresh row in the batch
  std::span<const Token> tokens;  // Slot::tokens
  bool whole = false;             // Slot::whole
  bool reads_all = false;         // Slot::reads_all
};

class CheckedStore;

class CheckedStep : public Step {
 public:
  CheckedStep(CheckedStore& store, std::vector<StepSlot> step_slots);
  ~CheckedStep() override;
  CheckedStep(const CheckedStep&) = delete;
  CheckedStep& operator=(const CheckedStep&) = delete;

  void write(uint32_t layer, const float* k, const float* v) final;
  void view(const Query& query, base::Arena& scratch, kernels::View& out) final;
  void commit(const Kept& kept) final;

 protected:
  std::span<const StepSlot> step_slots() const { return step_slots_; }

  virtual void write_rows(uint32_t layer, const float* k, const float* v) = 0;
  virtual void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) = 0;
  // Marks a layer's fresh rows as written when they did not come through write().
  void mark_written(uint32_t layer) { written_[layer] = true; }
  // The same for a piece of them (PieceWriter), which must begin where the previous piece ended.
  void mark_piece(uint32_t layer, uint32_t first, uint32_t count);
  // Keeps these rows of one slot, ascending, and sets the sequence's length. begin() has taken the
  // memory already. If an allocation fails here all the same, the step's sequences are lost
  // (Sequence::lost).
  virtual void keep_rows(uint32_t slot, std::span<const uint32_t> rows) = 0;
  // Keeps the rows of all slots, by default slot by slot. Overridden to commit them together.
  virtual void keep_all(const Kept& kept);

  // Checks for facets, which follow the same rules.
  void check_live() const;
  void check_layer(uint32_t layer) const;
  void check_query(const Query& query) const;
  bool was_written(uint32_t layer) const { return written_[layer]; }

 private:
  void check_kept(const Kept& kept) const;
  uint64_t fresh_rows() const { return step_slots_.back().first + step_slots_.back().fresh; }

  CheckedStore& store_;
  std::vector<StepSlot> step_slots_;
  std::vector<bool> written_;     // per layer: all or a piece of it was written
  std::vector<uint64_t> pieces_;  // per layer written in pieces: rows written so far; else 0
  bool ended_ = false;
};

// Throws base::Bug unless these are some of a slot's fresh rows, ascending.
void check_kept_rows(std::span<const uint32_t> rows, uint32_t fresh);

}  // namespace kvick::kv
