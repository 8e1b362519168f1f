#pragma once
// The interface of a policy that leaves rows in place: it says which committed rows a query reads,
// and what data it keeps beside the rows to decide that. SelectStore (select_store.h) does the
// rest: it holds the rows in a store of any strategy, shares, forks and commits them, and shows the
// chosen ones.
//
// A Selector belongs to one store and does not change; all its methods are called from many
// threads. Its data lies in blocks; each is for some rows of one sequence in all layers and heads.
// Forks share a block until one of them adds to it. The data is of one of two kinds:
// * summaries, which summarise() writes from the committed rows only, in order, so they stay right
//   after forks, shared prefixes, dropped steps and accepted paths of draft trees;
// * side rows, one per row, which project() makes from the input of a layer's projections
//   (InputReader). They cannot be recomputed from rows, so stores with such a selector neither
//   share prefixes nor move rows (side_row_traits).

#include <algorithm>
#include <memory>
#include <span>

#include "base/memory.h"
#include "kernels/attention/view.h"
#include "kernels/table/table.h"
#include "kv/strategy/selection.h"
#include "kv/strategy/strategy.h"

namespace kvick::kv {

// A block holds data for `rows` committed rows in `bytes` bytes per layer and head; a side row has
// bytes / rows bytes. rows = 0: no data is kept.
struct SummaryShape {
  uint32_t rows = 0;
  size_t bytes = 0;
};

using SummaryBlock = std::shared_ptr<std::byte[]>;

// Rows of one sequence, in one layer and head.
struct RowsOfHead {
  uint32_t layer = 0, head = 0;
  kernels::Segment segment;  // its runs are the rows to read, in order
  std::span<const SummaryBlock> blocks;
  size_t offset = 0;  // of this layer and head, in each block

  // Returns the summary of rows [block * SummaryShape::rows, (block + 1) * SummaryShape::rows).
  std::byte* summary(uint32_t block) const { return blocks[block].get() + offset; }
};

struct SelectRequest {
  RowsOfHead rows;
  uint32_t count = 0;  // committed rows
  TopRows top_rows;    // 0 < take < last - first, or take = 0
  // All queries of the step in this slot and KV head, `group` per token, each [head_dim], without
  // the transform of the rows (Shape::hadamard). All of them read the same rows. Each is null if
  // rows are prefetched from `predicted` only.
  std::span<const float* const> queries;
  uint32_t group = 1;
  float scale = 1, softcap = 0;                     // of the logits, as in Query
  const float* sinks = nullptr;                     // [group], or null
  const std::span<const uint32_t>* path = nullptr;  // per token, as in Query
  kernels::Segment fresh;                           // the step's rows, in the order of its tokens
  // With side rows: project()'s `predicted` for the slot's tokens and this layer; else null.
  const float* predicted = nullptr;  // [tokens][predicted_floats()]
};

// The result of choose(). Its spans lie in the scratch passed to choose().
struct SelectedRows {
  // top_rows.take rows of [first, last): rows[i] and the `each` - 1 rows behind it. Ascending.
  std::span<const uint32_t> rows;
  uint32_t each = 1;
  // As in kernels::View: a value that stands for the omitted rows, and their probability per query.
  const float* rest = nullptr;
  std::span<const float> rest_mass;
  // Rows that stand for omitted committed rows; they are read beside the chosen rows.
  std::span<const kernels::Segment> stand_ins;
};

// The input of a layer's projections for the batch's tokens, in batch order (InputReader).
struct LayerInputs {
  uint32_t layer = 0;
  const float* x = nullptr;             // [tokens][SelectSetup::model_dim]
  std::span<const uint32_t> positions;  // [tokens], in their sequences
};

class Selector {
 public:
  explicit Selector(const Selection& selection) : selection_(selection) {}
  virtual ~Selector() = default;
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  const Selection& selection() const { return selection_; }
  virtual SummaryShape summary() const { return {}; }
  // Updates the summaries for the committed rows [first, end). Rows before `first` are summarised
  // already.
  virtual void summarise(const RowsOfHead& rows, uint32_t first, uint32_t end) const {
    (void)rows, (void)first, (void)end;
  }
  // Returns the first row that summarise(rows, first, end) reads, and rows.segment has.
  virtual uint32_t summary_begin(uint32_t first, uint32_t end) const {
    (void)end;
    return first;
  }
  // Returns whether the selector keeps side rows instead of summaries.
  virtual bool has_side_rows() const { return false; }
  virtual size_t predicted_floats() const { return 0; }  // per token, all heads
  // Fills side: [tokens][kv_heads] side rows, and predicted: [tokens][predicted_floats()]. Called
  // from the model's thread before the layer's projections; may use the setup's thread pool.
  virtual void project(const LayerInputs& inputs, std::byte* side, float* predicted) const {
    (void)inputs, (void)side, (void)predicted;
  }
  // Stores the side row of the committed row `row` where choose() reads it; by default side rows
  // follow each other.
  virtual void keep(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> side) const {
    const uint32_t count = summary().rows;
    std::copy(side.begin(), side.end(), rows.summary(row / count) + row % count * side.size());
  }
  // Returns whether committed rows must stay in memory: choose() reads SelectRequest::rows.segment.
  virtual bool reads_rows() const { return false; }
  // Returns whether summarise() reads rows again that have a summary already (summary_begin). In a
  // slower tier they must then be where processors can load them.
  virtual bool summarises_again() const { return false; }
  virtual void choose(const SelectRequest& question, base::Arena& scratch,
                      SelectedRows& choice) const = 0;
  // Returns the bytes that choosing reads per layer and head in a sequence of `rows` committed
  // rows.
  virtual uint64_t choice_bytes(const TopRows& top_rows, uint32_t rows) const = 0;

 private:
  Selection selection_;
};

// Returns the indices of the `take` highest of at least `take` scores, ascending; ties go to the
// lower index. NaN ranks below every number.
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
