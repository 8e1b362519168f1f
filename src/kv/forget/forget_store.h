#pragma once
// Internal to the policies that forget rows for good (streaming.cc, h2o.cc): a store of its own,
// which keeps the rows that are left side by side, for each head others. A step's rows lie in
// memory of the step; its commit takes those that stay, so that a dropped step forgets nothing. The
// layout has nothing to keep, and only the default one is taken.

#include <atomic>

#include "kv/rows/row_buffer.h"
#include "kv/rows/row_store.h"
#include "kv/select/policy.h"
#include "kv/strategy/selection.h"

namespace kvick::kv {

// What is noted of a row's attention, which says how much it counts.
enum class Noted : uint8_t {
  kNothing,  // those that stay are the newest
  kMass,     // what it had, summed over steps and queries (H2O)
  kLows,     // queries of which it had less than an even share, counted down (Scissorhands)
};

// Which rows stay: the sinks, the newest ones, and of the others those that count most.
struct ForgetRule {
  Selection selection;
  Noted noted = Noted::kNothing;
  bool half_recent = false;  // the newest ones are half of the budget, not selection.recent
  bool rotates_sinks = false;
  // Rows are given up so many at a time, where the number of tokens is a multiple of it.
  uint32_t drop = 1;
  uint32_t history = UINT32_MAX;  // tokens before that in which attention is noted

  // Rows that a sequence of so many tokens has left. It rises by one at most from one token to the
  // next and, with drop = 1, never falls.
  uint32_t held(uint32_t tokens) const;
  // The most that it has at any number of tokens past `from`, up to `to`.
  uint32_t most_held(uint32_t from, uint32_t to) const;
  // Whether attention counts in a step after which there are so many tokens.
  bool notes(uint32_t tokens) const;
  // Of them, the newest.
  uint32_t recent(uint32_t tokens) const;
};

// What is known of a row beside its keys and values.
struct RowNote {
  uint32_t pos = 0;
  float mass = 0;  // what Noted says
};

struct ForgetSequence : Sequence {
  RowBuffer rows;
  std::vector<RowNote> notes;  // [layers * kv_heads][rows.rows()]
  uint32_t held = 0;           // rows in use, from the first
};

class ForgetStore final : public CheckedStore {
 public:
  ForgetStore(const Setup& setup, const ForgetRule& rule) : CheckedStore(setup), rule_(rule) {}

  std::vector<MapEntry> map() const override;

  static constexpr uint32_t kGrowth = 32;  // rows by which memory grows
  static uint32_t room_for(uint32_t held) { return (held + kGrowth - 1) / kGrowth * kGrowth; }
  // Of one row of all layers and heads, what is known of it included.
  static uint64_t row_bytes(const Shape& shape) {
    return shape.token_bytes() + uint64_t{shape.layers} * shape.kv_heads * sizeof(RowNote);
  }

 private:
  friend class ForgetStep;

  static ForgetSequence& mine(Sequence& sequence) { return static_cast<ForgetSequence&>(sequence); }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override {
    return std::make_unique<ForgetSequence>();
  }
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  StepOr start(std::vector<StepSlot> step_slots) override;
  // Into memory of so many rows, which is charged. Throws std::bad_alloc and changes nothing.
  void move(const ForgetSequence& from, uint32_t rows, ForgetSequence& to);

  uint64_t held_bytes() const override { return own_bytes_; }
  Usage count() const override;

  ForgetRule rule_;
  uint64_t own_bytes_ = 0, copied_bytes_ = 0;
  std::atomic<uint64_t> read_bytes_ = 0;  // by views
};

class ForgetStep final : public CheckedStep, public Observer {
 public:
  ForgetStep(ForgetStore& store, std::vector<StepSlot> step_slots, std::vector<RowBuffer> fresh);
  ~ForgetStep() override { release(); }
  ForgetStep(const ForgetStep&) = delete;
  ForgetStep& operator=(const ForgetStep&) = delete;

  StepFacets facets() override {
    return {.observer = store_.rule_.noted != Noted::kNothing ? this : nullptr};
  }
  void observe(const Query& query, const kernels::View& view,
               std::span<const float> probs) override;

 private:
  struct Runs {
    kernels::Run sinks, others, fresh;
  };
  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_all(const Kept& kept) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> kept) override;

  ForgetSequence& sequence(uint32_t slot) const {
    return static_cast<ForgetSequence&>(*step_slots()[slot].sequence);
  }
  const float* rotated(const Query& query, base::Arena& scratch) const;
  float noted(uint32_t slot, float probability) const;
  // Of one head, with room for all rows of a slot, so that a commit allocates nothing.
  struct Scratch {
    std::vector<RowNote> notes;
    std::vector<uint32_t> go;
  };
  static void give_up(const ForgetRule& rule, uint32_t tokens, Scratch& scratch);
  void note(uint32_t slot, size_t at, std::span<const uint32_t> kept,
            std::vector<RowNote>& notes) const;
  void keep_of_head(uint32_t slot, size_t at, std::span<const uint32_t> kept, Scratch& scratch);
  void release();

  ForgetStore& store_;
  std::vector<RowBuffer> fresh_;  // per slot
  std::vector<Runs> runs_;        // per slot; views point into it
  // Per slot, if attention counts in this step: [layers * kv_heads][held + fresh].
  std::vector<std::vector<float>> probs_;
  std::vector<Scratch> scratch_;  // per worker
};

// A policy's make and cost, of its rule.
base::Result<std::unique_ptr<Store>> make_forget_store(const Setup& setup, const Layout& layout,
                                                       const ForgetRule& rule);
base::Result<Cost> forget_cost(const Setup& setup, const Layout& layout, const ForgetRule& rule,
                               const Load& load);
// Its change_traits.
void forgetting_traits(Traits& traits);

}  // namespace kvick::kv
