#pragma once
// A step over slots. It leaves the stored values unchanged: read() walks over them and adds the
// step's tokens on the way; commit() walks again to store the sums.

#include "kernels/attention/memory.h"
#include "kv/rows/row_block.h"
#include "kv/strategy/checked_store.h"

namespace kvick::kv {

struct SlotSequence : Sequence {
  // [layers][kv_heads][slots][head_dim] floats, then [layers][carried]; null before the first step.
  RowBlock values;
};

// A store's threads, each with its own scratch memory.
class Workers {
 public:
  explicit Workers(base::ThreadPool* pool)
      : pool_(pool), scratch_(pool != nullptr ? pool->size() : 1) {}
  // Calls body(i, scratch) for i in [0, count), from all threads.
  void for_each(size_t count, base::FunctionRef<void(size_t i, base::Arena& scratch)> body);

 private:
  base::ThreadPool* pool_;
  std::vector<base::Arena> scratch_;
};

// Its sequences are SlotSequences with allocated values.
class BoundedStep final : public CheckedStep, public SlotReader {
 public:
  BoundedStep(CheckedStore& store, std::vector<StepSlot> step_slots, const Setup& setup,
              Workers& workers);

  StepFacets facets() override { return {.slots = this}; }
  void gates(uint32_t layer, const float* gates) override;
  void carry(uint32_t layer, const float* x) override;
  const float* carried(uint32_t layer, uint32_t slot) const override;
  void read(uint32_t layer, const SlotQueries& queries) override;

 private:
  struct Where {
    uint32_t layer, slot, head;
  };
  // Consecutive fresh rows of a slot.
  struct Rows {
    uint32_t first, count;
  };

  // Work space for some tokens of one (sequence, layer, KV head).
  struct WorkSpace {
    float* x;       // [tokens + queries][inputs of the keys]
    float* scores;  // [tokens + queries][stride]: e^logit of the tokens' write queries, then of
                    // their queries
    float* adds;    // [tokens][head_dim]: the write values divided by the sum of the token's scores
    float* inverse;  // [queries]: inverse sums of the queries' scores
  };

  const Shape& shape() const { return setup_.shape; }
  const Slots& slots() const { return *setup_.slots; }
  const kernels::Table& kernels() const {
    return setup_.compute.kernels != nullptr ? *setup_.compute.kernels
                                             : kernels::table(base::Isa::kScalar);
  }
  size_t head_floats() const { return size_t{slots().slots} * shape().head_dim; }
  size_t layer_floats() const { return tokens_ * shape().kv_heads * shape().head_dim; }
  // Not a multiple of 128 bytes, because scores of consecutive tokens must not share a cache set.
  uint32_t stride() const { return ((slots().slots + 15) / 16 | 1) * 16; }
  const kernels::Matrix& keys(const Where& at) const {
    return slots().keys[size_t{at.layer} * shape().kv_heads + at.head];
  }
  float* values(const Where& at) const {
    const auto& sequence = static_cast<SlotSequence&>(*step_slots()[at.slot].sequence);
    return reinterpret_cast<float*>(sequence.values.get()) +
           (size_t{at.layer} * shape().kv_heads + at.head) * head_floats();
  }
  float* last_carried(uint32_t layer, uint32_t slot) const {
    const auto& sequence = static_cast<SlotSequence&>(*step_slots()[slot].sequence);
    return reinterpret_cast<float*>(sequence.values.get()) +
           size_t{shape().layers} * shape().kv_heads * head_floats() +
           size_t{layer} * slots().carried;
  }
  // Returns a fresh row as it was written.
  const float* row(const Where& at, bool is_v, uint32_t token) const {
    const size_t first = (step_slots()[at.slot].first + token) * shape().kv_heads + at.head;
    return rows_.get() + (size_t{at.layer} * 2 + (is_v ? 1 : 0)) * layer_floats() +
           first * shape().head_dim;
  }
  // Returns the gates of consecutive fresh rows; null: all gates are 1.
  const float* gates_of(const Where& at, uint32_t token) const {
    const float* of_layer = gates_[at.layer].get();
    return of_layer == nullptr ? nullptr
                               : of_layer + at.head * tokens_ + step_slots()[at.slot].first + token;
  }
  // For batch slots of few tokens: the weights kept for commit, [fresh][stride], then the values to
  // add, [fresh][head_dim].
  size_t few_floats() const { return size_t{stride()} + shape().head_dim; }
  bool few(uint32_t slot) const;
  float* few_weights(const Where& at) const {
    const size_t head = size_t{at.layer} * shape().kv_heads + at.head;
    return few_.get() + (head * few_tokens_ + few_first_[at.slot]) * few_floats();
  }
  float* few_adds(const Where& at) const {
    return few_weights(at) + size_t{step_slots()[at.slot].fresh} * stride();
  }
  uint32_t most_tokens(uint32_t group) const;

  void write_rows(uint32_t layer, const float* k, const float* v) override;
  void view_rows(const Query& query, base::Arena& scratch, kernels::View& out) override;
  void keep_rows(uint32_t slot, std::span<const uint32_t> rows) override;

  WorkSpace make_work_space(const Where& at, uint32_t tokens, uint32_t group,
                            base::Arena& scratch) const;
  void weigh(const Where& at, const Rows& rows, const SlotQueries& queries,
             const WorkSpace& work) const;
  kernels::MemoryWalk walk_of(const Where& at, const Rows& rows, const WorkSpace& work) const;
  void read_chain(const Where& at, const SlotQueries& queries, base::Arena& scratch);
  void read_tree(const Where& at, const SlotQueries& queries, base::Arena& scratch);
  void divide(const kernels::MemoryWalk& walk, const float* inverse) const;
  void keep_few(const Where& at, const WorkSpace& work);
  void carry_on(uint32_t layer, uint32_t slot, uint32_t row);
  void absorb(const Where& at, const Rows& rows, base::Arena& scratch);

  const float* query(const Where& at, const SlotQueries& queries, uint32_t token) const {
    return queries.q + out_place(at, queries, token);
  }
  size_t out_place(const Where& at, const SlotQueries& queries, uint32_t token) const {
    const size_t head = (step_slots()[at.slot].first + token) * shape().kv_heads + at.head;
    return head * queries.group * shape().head_dim;
  }

  const Setup& setup_;
  Workers& workers_;
  uint64_t tokens_ = 0;
  std::vector<bool> was_read_;                     // per layer
  std::unique_ptr<float[]> rows_;                  // [layers][k, v][tokens_][kv_heads][head_dim]
  std::vector<std::unique_ptr<float[]>> gates_;    // per layer null, or [kv_heads][tokens_]
  std::vector<std::unique_ptr<float[]>> carried_;  // per layer null, or [tokens_][carried]
  std::vector<size_t> few_first_;  // per batch slot: tokens of earlier slots that have few tokens
  size_t few_tokens_ = 0;
  std::unique_ptr<float[]> few_;
};

}  // namespace kvick::kv
