#pragma once
// Enforces once the rules of kv.h that are the same for every strategy: ids, order of calls,
// batches, the length of the context. A strategy derives a Sequence, a CheckedStore and a
// CheckedStep; their methods see only valid arguments.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kv/strategy/budget.h"
#include "kv/strategy/checked_step.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

class CheckedStore : public Store, public Holdings, public Health {
 public:
  // most_tokens: most tokens of one sequence, which kv::most_tokens computes for the strategy.
  CheckedStore(const Setup& setup, uint32_t most_tokens)
      : Store({.groups = {setup.shape}, .most_tokens = most_tokens}),
        setup_(setup),
        charge_(setup.limits.budget.get()) {}
  explicit CheckedStore(const Setup& setup) : CheckedStore(setup, setup.shape.max_tokens) {}

  Opened open(std::span<const Token> prompt, const Owner& owner) final;
  base::Result<SeqId, Shortage> fork(SeqId seq) final;
  void close(SeqId seq) final;
  base::Result<std::unique_ptr<Step>, Shortage> begin(const Batch& batch) final;
  uint32_t length(SeqId seq) const final;
  uint64_t shrink(uint64_t bytes) final;
  Usage usage() const final;
  StoreFacets facets() override { return {.holdings = this, .health = this}; }
  std::string failure(SeqId seq) const final;
  bool ran_out_of_memory(SeqId seq) const final;
  // Sets the cap on allocated bytes from now on, where this store is part of another.
  virtual void limit(uint64_t max_bytes) { setup_.limits.max_bytes = max_bytes; }

 protected:
  using SequenceOr = base::Result<std::unique_ptr<Sequence>, Shortage>;
  using StepOr = base::Result<std::unique_ptr<CheckedStep>, Shortage>;

  const Setup& setup() const { return setup_; }
  // Returns a Shortage if raising the allocated bytes from `now` to `then` would exceed the cap or
  // the budget. `what` begins its text. Cached rows count as free.
  std::optional<Shortage> shortage_of(uint64_t now, uint64_t then, std::string_view what) const;
  // Checks like shortage_of(); without a Shortage it also charges the rise to the budget, evicting
  // cached rows if needed. The charge lasts for the call or for the step that the call begins;
  // afterwards only held bytes stay charged.
  std::optional<Shortage> over_cap(uint64_t now, uint64_t then, std::string_view what);

  // Raises the charge towards `bytes` as far as the budget has room without evicting anything.
  // Returns the bytes charged then, which last as long as those of over_cap().
  uint64_t charge_up_to(uint64_t bytes);

  virtual std::unique_ptr<Sequence> make_sequence(std::span<const Token> prompt,
                                                  const Owner& owner) = 0;
  virtual SequenceOr copy_sequence(SeqId id, const Sequence& from) = 0;
  virtual void free_sequence(std::unique_ptr<Sequence> sequence) = 0;
  // Reserves room for all slots, which fit into the context, or changes nothing.
  virtual StepOr start(std::vector<StepSlot> step_slots) = 0;
  // Returns why a sequence is lost for a reason other than a failed commit, or "".
  virtual std::string failure_of(const Sequence& sequence) const {
    (void)sequence;
    return {};
  }
  // The same for Health::ran_out_of_memory.
  virtual bool ran_out_of_memory_of(const Sequence& sequence) const {
    (void)sequence;
    return false;
  }
  // Called by commit if the shape has a window: gives back memory that holds only rows before
  // Shape::first_seen(sequence.length), and sets sequence.first to that row. Views begin there.
  virtual void give_back(Sequence& sequence) {
    sequence.first = shape().first_seen(sequence.length);
  }
  // Fills all fields of Usage except sequences and wasted_bytes.
  virtual Usage count() const = 0;
  // Usage::allocated_bytes, less what an inner store charges to the budget itself.
  virtual uint64_t held_bytes() const = 0;
  // These implement Usage::cached_bytes and Holdings::shrink.
  virtual uint64_t cached_bytes() const { return 0; }
  virtual uint64_t evict(uint64_t bytes) {
    (void)bytes;
    return 0;
  }
  // For map(): one piece per sequence; sets its users and owner.
  std::vector<MapEntry> piece_each(base::FunctionRef<MapEntry(const Sequence&)> piece_of) const;
  void for_each_sequence(base::FunctionRef<void(SeqId, const Sequence&)> use) const;
  // Committed tokens of all open sequences.
  uint64_t tokens() const;
  Sequence& find(SeqId seq) const;  // throws base::Bug if it is not open
  void check_idle(std::string_view call) const;

 private:
  friend class CheckedStep;
  using Sequences = std::map<SeqId, std::unique_ptr<Sequence>>;
  using Entry = Sequences::node_type;
  Entry new_entry() const;  // with the next id, but no sequence yet
  SeqId add(Entry entry);   // takes no memory
  std::vector<StepSlot> step_slots_of(const Batch& batch) const;
  // Returns a Shortage if a sequence is lost or would grow past the context.
  std::optional<Shortage> unusable(std::span<const StepSlot> step_slots) const;
  // Gives back what is charged but not held.
  void settle() { charge_.lower_to(held_bytes()); }

  Setup setup_;
  Sequences sequences_;
  uint32_t next_id_ = 0;
  const CheckedStep* live_ = nullptr;
  Charge charge_;  // at least held_bytes()
};

}  // namespace kvick::kv
