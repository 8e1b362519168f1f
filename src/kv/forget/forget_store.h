#pragma once
// Internal to the policies that forget rows for good. The store keeps the remaining rows itself;
// heads may keep different rows. A step's rows lie in its own memory and commit copies those that
// stay: a dropped step forgets nothing. The layout keeps no row; only the default is accepted.

#include <atomic>

#include "kv/forget/document.h"
#include "kv/forget/expected_queries.h"
#include "kv/forget/forget_choice.h"
#include "kv/rows/row_buffer.h"
#include "kv/rows/row_store.h"
#include "kv/strategy/checked_store.h"

namespace kvick::kv {

struct ForgetSequence : Sequence {
  RowPool rows;
  QueryMoments queries;  // of Noted::kExpected
  Beginning beginning;   // of Noted::kDocument
};

class ForgetStore final : public CheckedStore {
 public:
  ForgetStore(const Setup& setup, const ForgetRule& rule)
      : CheckedStore(setup, kv::most_tokens(endless_traits(rule), setup)), rule_(rule) {}

  std::vector<MapEntry> map() const override;

 private:
  friend class ForgetStep;

  static ForgetSequence& mine(Sequence& sequence) { return static_cast<ForgetSequence&>(sequence); }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return std::make_unique<ForgetSequence>();
  }
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;
  // Copies a sequence's rows into a new pool of `blocks` blocks per group and charges its memory.
  // If it throws std::bad_alloc, nothing has changed.
  void move(const ForgetSequence& from, uint32_t blocks, ForgetSequence& to);
  uint32_t together() const { return rule_.together(shape()); }
  // Returns the beginning that the sequence has once the slot's fresh rows `kept` are its own.
  Beginning beginning_of(const StepSlot& step_slot, std::span<const uint32_t> kept) const;
  // Returns whether the slot's step may be the one that drops a document's rows.
  bool may_end_document(const StepSlot& step_slot) const;
  // Blocks per group that a sequence needs in a step, and those of the pool that its rows are moved
  // to when the step drops a document's rows, so that the memory becomes free. 0: none.
  struct Room {
    uint32_t blocks = 0, after = 0;
  };
  Room room_for(const StepSlot& step_slot) const;
  uint64_t pool_bytes(uint32_t blocks) const;
  // Returns the bytes that a step takes for a slot until it ends: its rows and their scores.
  uint64_t step_bytes(const StepSlot& step_slot) const;

  uint64_t held_bytes() const override { return own_bytes_; }
  Usage count() const override;
  std::string failure_of(const Sequence& sequence) const override;

  ForgetRule rule_;
  uint64_t own_bytes_ = 0, copied_bytes_ = 0;
  std::atomic<uint64_t> read_bytes_ = 0;  // by views
};

class ForgetStep final : public CheckedStep, public Observer, public InputReader {
 public:
  ForgetStep(ForgetStore& store, std::vector<StepSlot> step_slots, std::vector<RowBuffer> fresh,
             std::vector<RowPool> after, std::vector<ForgetChoice> choices);
  ~ForgetStep() override { release(); }

  StepFacets facets() override {
    return {.inputs = store_.rule_.noted == Noted::kPredicted ? this : nullptr,
            .observer = store_.rule_.observes() || store_.rule_.expects() ? this : nullptr};
  }
  void inputs(uint32_t layer, const float* x, std::span<const uint32_t> positions) override;
  uint32_t apart(uint32_t) const override {
    return store_.rule_.expects() ? kQueriesOnly : store_.rule_.window;
  }
  void observe(const Query& query, const kernels::View& view,
               std::span<const float> probs) override;

 private:
  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  ForgetSequence& sequence(uint32_t slot) const {
    return static_cast<ForgetSequence&>(*step_slots()[slot].sequence);
  }
  const float* rotated(const Query& query, base::Arena& scratch) const;
  float noted(uint32_t slot, size_t rows, float probability) const;
  // The kept rows of a slot, for one group of heads.
  struct Keeping {
    uint32_t slot = 0;
    size_t first = 0, heads = 0;  // heads of the group
    std::span<const uint32_t> kept;
  };
  // Returns the note of the i-th kept row.
  RowNote new_note(const Keeping& keeping, size_t head, uint32_t i) const;
  void note(const Keeping& keeping, ForgetChoice& choice) const;
  // Returns how many of a slot's tokens are observed apart.
  uint32_t apart_of(uint32_t slot) const { return store_.rule_.apart(fresh_[slot].rows()); }
  // Writes what the kept tokens' queries paid to a row into its history: that of the query at
  // position p is at p % window. row: as in ForgetChoice::notes, from the head's first.
  void enter(const Keeping& keeping, size_t head, uint32_t row, std::span<float> history) const;
  void score(const Keeping& keeping, ForgetChoice& choice) const;
  void expect(const Keeping& keeping, ForgetChoice& choice) const;
  void for_heads(size_t count, size_t grain,
                 base::FunctionRef<void(size_t begin, size_t end, unsigned worker)> work);
  // Copies fresh row `from` of a slot to row `to` of a head.
  void take_fresh(uint32_t slot, size_t head, uint32_t from, uint32_t to);
  bool all_stay(uint32_t slot, const Beginning& beginning, size_t kept) const;
  void move_after(uint32_t slot);
  void add_all(uint32_t slot, std::span<const uint32_t> kept);
  void keep_of_group(const Keeping& keeping, ForgetChoice& choice);
  void keep_of_head(const Keeping& keeping, const ForgetChoice& choice, size_t head);
  void release();

  ForgetStore& store_;
  std::vector<RowBuffer> fresh_;          // per slot
  std::vector<kernels::Run> fresh_runs_;  // per slot; views point into it
  std::vector<RowPool> after_;            // per slot: see ForgetStore::Room::after
  // Per slot and head, if attention is scored: [held + fresh] for each token observed apart.
  std::vector<std::vector<std::vector<float>>> probs_;
  std::vector<StepQueries> queries_;   // per slot, of Noted::kExpected
  std::vector<float> predicted_;       // [layers][sum of fresh][kv_heads]
  std::vector<ForgetChoice> choices_;  // per worker that chooses
  uint64_t bytes_ = 0;  // ForgetStore::step_bytes of all slots, and scratch; held by the store
};

}  // namespace kvick::kv
