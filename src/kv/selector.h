#pragma once
// What a policy that leaves rows in place has to say: which committed rows a query reads, and what
// it keeps beside them to find that out. The rest is SelectStore's (select_store.h): one store of
// any strategy holds the rows, shares, forks and commits them, and shows those that were chosen.
//
// A Selector belongs to one store and does not change: all its methods are called from many
// threads. What it keeps are summaries: blocks of a few hundred rows of one sequence, of all layers
// and heads, each written from the committed rows alone, in their order, and therefore right after
// forks, shared prefixes, dropped steps and paths through trees.

#include <algorithm>
#include <memory>
#include <span>

#include "base/memory.h"
#include "kernels/view.h"
#include "kv/registry.h"
#include "kv/selection.h"

namespace kvick::kv {

// Of `rows` committed rows: so many bytes for each layer and head. No rows: none is kept.
struct SummaryShape {
  uint32_t rows = 0;
  size_t bytes = 0;
};

// What a policy keeps of a token that its committed rows do not say: made from the layer's input
// before the rows are, and given to the summaries when the token is committed. No inputs: nothing.
struct SideShape {
  uint32_t inputs = 0;      // floats of a layer's input
  size_t row_bytes = 0;     // of one token in one layer, of all heads
  size_t query_floats = 0;  // what choosing takes of one token in one layer, of all heads
};

using SummaryBlock = std::shared_ptr<std::byte[]>;

// Rows of one sequence, in one layer and head.
struct RowsOfHead {
  uint32_t layer = 0, head = 0;
  kernels::Segment segment;  // of which runs are the rows asked about, in order
  std::span<const SummaryBlock> blocks;
  size_t offset = 0;  // of this layer and head, in each block

  // Of rows [block * SummaryShape::rows, (block + 1) * SummaryShape::rows).
  std::byte* summary(uint32_t block) const { return blocks[block].get() + offset; }
};

struct Question {
  RowsOfHead rows;
  uint32_t count = 0;  // committed rows
  Choosing choosing;   // 0 < take < last - first, or take = 0
  // Every query of the step in this slot and KV head: [head_dim] each. They read the same rows.
  std::span<const float* const> queries;
  // SideShape::query_floats of each token of the step in this slot, one after the other; null if
  // there are none.
  const float* looked = nullptr;
};

// What choose() answers. Spans lie in the scratch that it was given.
struct Choice {
  std::span<const uint32_t> rows;  // question.choosing.take of [first, last), ascending
  // kernels::View's: a value for what is left out, and its share of each query's probability.
  const float* rest = nullptr;
  std::span<const float> rest_mass;
};

class Selector {
 public:
  explicit Selector(const Selection& selection) : selection_(selection) {}
  virtual ~Selector() = default;
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  const Selection& selection() const { return selection_; }
  virtual SummaryShape summary() const { return {}; }
  // Rows [first, end) have been committed: their summaries are up to date once it returns. Rows
  // before `first` have been summarised.
  virtual void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const {
    (void)rows, (void)first, (void)end;
  }
  // A policy of side rows has these in place of summarise, and the blocks of a step's rows from its
  // beginning. One token's input, x: what becomes of it.
  virtual SideShape side() const { return {}; }
  virtual void look(uint32_t layer, const float* x, std::byte* row, float* queries) const {
    (void)layer, (void)x, (void)row, (void)queries;
  }
  // Row `row` has been committed, and `side` is what look() made of its token.
  virtual void put(const RowsOfHead& rows, uint32_t row, const std::byte* side) const {
    (void)rows, (void)row, (void)side;
  }
  virtual void choose(const Question& question, base::Arena& scratch, Choice& choice) const = 0;
  // Bytes that choosing reads in one layer and head, of a sequence of so many committed rows.
  virtual uint64_t choice_bytes(const Choosing& choosing, uint32_t rows) const = 0;

 private:
  Selection selection_;
};

// The highest `take` of scores, as ascending indices; of equal ones the first.
std::span<const uint32_t> highest(std::span<const float> scores, uint32_t take,
                                  base::Arena& scratch);

// Calls use(row number, pointer to the key, pointer to the value) for rows [first, end).
template <class Use>
void for_each_row(const kernels::Segment& segment, uint32_t first, uint32_t end, const Use& use) {
  for (const kernels::Run& run : segment.runs) {
    if (run.pos + run.rows <= first) continue;
    if (run.pos >= end) return;
    for (uint32_t pos = std::max(first, run.pos); pos < std::min(end, run.pos + run.rows); ++pos) {
      const size_t row = size_t{run.row} + (pos - run.pos);
      use(pos, segment.k + row * segment.k_stride, segment.v + row * segment.v_stride);
    }
  }
}

}  // namespace kvick::kv
