#pragma once
// Low-rank keys, kept beside the rows: their layout, and how they choose rows. A row's weight for a
// KV head is its softmax probability by the products of low-rank queries and keys, summed over the
// queries that share the view: all queries of the group and of the step's tokens.
//
// Optionally only some rows are weighed, so that the work grows slowly with the context: rows in
// the pages of 16 that have the highest weights by an upper bound of their products, from the
// minimum and maximum of each value of their low-rank keys, as Quest bounds the keys of a page
// (quest.cc).

#include "kv/rows/candidates.h"
#include "kv/select/block_vectors.h"
#include "kv/select/selector.h"

namespace kvick::kv {

constexpr Option low_rank_candidates_option() {
  return candidates_option(
      "rows that are weighed, as a multiple of those chosen: the rows of the pages of 16 that have "
      "the highest weights by the bounds of their low-rank keys; 0: all rows",
      "0");
}

class LowRankKeys {
 public:
  // rank: values of a low-rank key; type: STATIC8 or F16.
  LowRankKeys(const kernels::Table& kernels, uint32_t rank, kernels::DType type,
              Candidates candidates);

  uint32_t rank() const { return keys_.layout().dims; }
  kernels::DType type() const { return keys_.layout().type; }
  size_t row_bytes() const { return kernels::dtype_bytes(type(), rank()); }
  SummaryShape summary() const {
    return {.rows = kBlockRows, .bytes = keys_.bytes() + (candidates_.all() ? 0 : bounds_.bytes())};
  }
  // Returns the bytes of low-rank keys and of their pages' bounds that choose() reads once.
  uint64_t choice_bytes(const TopRows& top_rows) const;

  // Stores the low-rank key of a row: `rank` floats, or row_bytes() bytes made from them by
  // store_row(). Rows are stored in order.
  void put(const RowsOfHead& rows, uint32_t row, std::span<const float> key) const;
  void put(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> key) const;

  // Chooses rows with one low-rank query per query of the request: queries [queries][rank].
  void choose(const SelectRequest& question, std::span<const float> queries, base::Arena& scratch,
              SelectedRows& choice) const;

 private:
  static constexpr uint32_t kBlockRows = 256;
  static constexpr uint32_t kPageRows = 16;

  void widen(std::byte* block, uint32_t row, std::span<const std::byte> key) const;

  static kernels::Range pages_of(const TopRows& top_rows);
  uint32_t pages_to_weigh(const TopRows& top_rows) const;
  std::span<const kernels::Range> ranges_to_weigh(const SelectRequest& question,
                                                  std::span<const float> queries,
                                                  base::Arena& scratch) const;
  // Returns the weights of the vectors of these ranges; queries: [queries][dims of a vector].
  std::span<float> weights(const SelectRequest& question, const BlockVectors& vectors,
                           std::span<const kernels::Range> ranges, std::span<const float> queries,
                           base::Arena& scratch) const;

  const kernels::Table& kernels_;
  Candidates candidates_;
  BlockVectors keys_, bounds_;  // bounds of a page: [most, least] of each value of its keys
};

}  // namespace kvick::kv
