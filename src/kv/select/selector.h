#pragma once
// What a policy that leaves rows in place has to say: which committed rows a query reads, and what
// it keeps beside them to find that out. The rest is SelectStore's (select_store.h): one store of
// any strategy holds the rows, shares, forks and commits them, and shows those that were chosen.
//
// A Selector belongs to one store and does not change: all its methods are called from many
// threads. What it keeps beside rows lies in blocks, each of some rows of one sequence in all
// layers and heads, which forks share until one adds to them. It is of one of two kinds:
//   summaries, which summarise() writes from the committed rows alone, in their order: right after
//     forks, shared prefixes, dropped steps and paths through trees;
//   side rows, one for each row, which project() makes from what a layer's projections read
//     (InputReader). They cannot be recomputed from rows, so stores with such a selector neither
//     share prefixes nor move rows (side_row_traits).

#include <algorithm>
#include <memory>
#include <span>

#include "base/memory.h"
#include "kernels/attention/view.h"
#include "kernels/table/table.h"
#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

// A block summarises `rows` committed rows in `bytes` bytes per layer and head; with side rows
// these are bytes / rows each. rows = 0: nothing is kept.
struct SummaryShape {
  uint32_t rows = 0;
  size_t bytes = 0;
};

using SummaryBlock = std::shared_ptr<std::byte[]>;

// Rows of one sequence, in one layer and head.
struct RowsOfHead {
  uint32_t layer = 0, head = 0;
  kernels::Segment segment;  // its runs are the rows asked about, in order
  std::span<const SummaryBlock> blocks;
  size_t offset = 0;  // of this layer and head, in each block

  // The summary of rows [block * SummaryShape::rows, (block + 1) * SummaryShape::rows).
  std::byte* summary(uint32_t block) const { return blocks[block].get() + offset; }
};

struct SelectRequest {
  RowsOfHead rows;
  uint32_t count = 0;  // committed rows
  TopRows top_rows;    // 0 < take < last - first, or take = 0
  // Every query of the step in this slot and KV head: [head_dim] each, `group` of each token, as
  // they were before the transform that the rows have (Shape::hadamard). They read the same rows.
  // Null, each of them, where rows are foreseen from `predicted` alone.
  std::span<const float* const> queries;
  uint32_t group = 1;
  float scale = 1, softcap = 0;                     // of the logits, as in Query
  const float* sinks = nullptr;                     // [group], or null
  const std::span<const uint32_t>* path = nullptr;  // of each token, as in Query
  kernels::Segment fresh;                           // the step's rows, of its tokens in order
  // With side rows: project()'s `predicted` for the slot's tokens and this layer; else null.
  const float* predicted = nullptr;  // [tokens][predicted_floats()]
};

// What choose() answers. Spans lie in the scratch that it was given.
struct SelectedRows {
  std::span<const uint32_t> rows;  // question.top_rows.take of [first, last), ascending
  // kernels::View's: a value for what is left out, and its share of each query's probability.
  const float* rest = nullptr;
  std::span<const float> rest_mass;
  // Rows that stand for committed ones left out, and are read beside the chosen ones.
  std::span<const kernels::Segment> stand_ins;
};

// What the projections of a layer read of some tokens, in batch order (InputReader).
struct LayerInputs {
  uint32_t layer = 0;
  const float* x = nullptr;             // [tokens][SelectSetup::model_dim]
  std::span<const uint32_t> positions;  // [tokens], in their texts
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
  // The first row that summarise(rows, first, end) looks at: rows.segment has those from it on.
  virtual uint32_t summary_begin(uint32_t first, uint32_t end) const {
    (void)end;
    return first;
  }
  // Whether it keeps side rows rather than summaries.
  virtual bool has_side_rows() const { return false; }
  virtual size_t predicted_floats() const { return 0; }  // of a token, all heads
  // Fills side: [tokens][kv_heads] side rows, and predicted: [tokens][predicted_floats()]. Called
  // from the model's thread before the layer's projections; may use the setup's thread pool.
  virtual void project(const LayerInputs& inputs, std::byte* side, float* predicted) const {
    (void)inputs, (void)side, (void)predicted;
  }
  // Row `row` has been committed: its side row goes to where choose() wants it, by default behind
  // the one before it.
  virtual void keep(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> side) const {
    const uint32_t count = summary().rows;
    std::copy(side.begin(), side.end(), rows.summary(row / count) + row % count * side.size());
  }
  // Whether committed rows have to stay where they can be looked at: by choose(), in
  // SelectRequest::rows.segment, or by a later summarise() (summary_begin).
  virtual bool reads_rows() const { return false; }
  virtual void choose(const SelectRequest& question, base::Arena& scratch,
                      SelectedRows& choice) const = 0;
  // Bytes that choosing reads per layer and head in a sequence of `rows` committed rows.
  virtual uint64_t choice_bytes(const TopRows& top_rows, uint32_t rows) const = 0;

 private:
  Selection selection_;
};

// Indices of the `take` highest of at least `take` scores, ascending; ties go to the lower index.
// NaN ranks below every number.
std::span<const uint32_t> highest(const kernels::Table& kernels, std::span<const float> scores,
                                  uint32_t take, base::Arena& scratch);

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
