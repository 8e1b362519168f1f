#pragma once
// A store that keeps all committed rows of a sequence, each written once, with one segment per
// layer and head and the same runs in all segments. So its rows can be moved as they are. It can
// also be the inner store of another store (kv/aging/aged.h), which asks it outside of steps where
// committed rows are.

#include "kv/strategy/checked_store.h"

namespace kvick::kv {

struct LayerInput;

class RowStore : public CheckedStore, public RowMover {
 public:
  using CheckedStore::CheckedStore;

  StoreFacets facets() override;
  void read_rows(SeqId seq, uint32_t first, uint32_t count, std::span<std::byte> out) const final;
  uint32_t first_row(SeqId seq) const override { return find(seq).first; }
  void hold_rows(SeqId seq, uint32_t from) override { (void)seq, (void)from; }

  const Sequence& sequence(SeqId seq) const { return find(seq); }
  // Appends the runs of rows [begin, end) to `runs`, in order. They stay valid until rows are added
  // to the sequence.
  virtual void add_runs(const Sequence& sequence, uint32_t begin, uint32_t end,
                        std::vector<kernels::Run>& runs) const = 0;
  // Returns the segment of one layer and head, whose row 0 the runs count from; its runs are not
  // set. The sequence must have room for rows.
  virtual kernels::Segment segment(const Sequence& sequence, uint32_t layer,
                                   uint32_t head) const = 0;

 protected:
  // Returns whether hold_rows() keeps rows that have left the window.
  virtual bool holds_windows() const { return false; }

 private:
  friend class RowStep;
  bool rows_move() const;  // whether each row is stored on its own
  void check_movable(uint64_t rows, uint64_t bytes) const;
};

// Implements view() with RowStore's add_runs() and segment().
class RowStep : public CheckedStep, public RowSink, public PieceWriter {
 public:
  StepFacets facets() override {
    const bool alone = store_.rows_move();
    return {.pieces = alone ? this : nullptr, .sink = alone ? this : nullptr};
  }
  void put(std::span<const std::byte> rows) final;
  void write_piece(uint32_t layer, uint32_t first, uint32_t count, const float* k,
                   const float* v) final;

 protected:
  RowStep(RowStore& store, std::vector<StepSlot> step_slots);

  // Called before the fresh rows of a layer are written.
  virtual void use(uint32_t layer) = 0;
  virtual void wrote(uint32_t layer) { (void)layer; }  // called after
  virtual void write_fresh(const LayerInput& input) = 0;
  // Returns where fresh row i of a slot goes; the other rows of its run follow directly.
  virtual std::byte* fresh_row(uint32_t slot, uint32_t layer, uint32_t head, bool is_v,
                               uint32_t i) const = 0;

 private:
  struct Runs {
    std::vector<kernels::Run> past, fresh;
  };

  void write_rows(uint32_t layer, const float* k, const float* v) final;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;

  RowStore& store_;
  std::vector<Runs> runs_;  // per slot; views point into it
};

}  // namespace kvick::kv
