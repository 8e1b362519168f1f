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
  uint32_t first = 0;   // rows before it were given back (Shape::window)
  uint32_t seen = 0;    // Opened::seen, where that is more than `length`
  // A commit ran out of memory half-way: its rows are not to be used.
  bool lost = false;
};

// One slot of a live step.
struct StepSlot {
  SeqId id{};
  Sequence* sequence = nullptr;
  uint32_t fresh = 0;
  uint64_t first = 0;             // its first fresh row, of the whole batch's
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
  // Marks a layer's fresh rows as written when they came by another way than write().
  void mark_written(uint32_t layer) { written_[layer] = true; }
  // The same for a piece of them (PieceWriter), which must begin where the previous one ended.
  void mark_piece(uint32_t layer, uint32_t first, uint32_t count);
  // Keeps these rows of one slot, ascending, and sets the sequence's length. Memory is taken
  // before: if there is none here, the step's sequences are lost (Sequence::lost).
  virtual void keep_rows(uint32_t slot, std::span<const uint32_t> rows) = 0;
  // Keeps the rows of all slots, by default slot by slot. Overridden to commit them together.
  virtual void keep_all(const Kept& kept);

  // For facets, which have the same rules.
  void check_live() const;
  void check_layer(uint32_t layer) const;
  void check_query(const Query& query) const;
  bool was_written(uint32_t layer) const { return written_[layer]; }

 private:
  void check_kept(const Kept& kept) const;
  uint64_t fresh_rows() const { return step_slots_.back().first + step_slots_.back().fresh; }

  CheckedStore& store_;
  std::vector<StepSlot> step_slots_;
  std::vector<bool> written_;     // per layer, or a piece of it
  std::vector<uint64_t> pieces_;  // of a layer in pieces: rows written so far; else 0
  bool ended_ = false;
};

// Throws base::Bug unless these are some of a slot's fresh rows, ascending.
void check_kept_rows(std::span<const uint32_t> rows, uint32_t fresh);

}  // namespace kvick::kv
