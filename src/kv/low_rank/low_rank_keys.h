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
              Candidates candidates)
      : kernels_(kernels), rank_(rank), type_(type), candidates_(candidates) {}

  uint32_t rank() const { return rank_; }
  kernels::DType type() const { return type_; }
  size_t row_bytes() const { return kernels::dtype_bytes(type_, rank_); }
  SummaryShape summary() const {
    return {.rows = kBlockRows, .bytes = keys().bytes(value_bytes()) + bounds_bytes()};
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

  // Low-rank keys, or bounds of pages ([most, least] of each value), in a block: columns
  // [dims][rows], because dot_columns reads one value of many rows at a time, or quads
  // (kernels::Quads).
  struct Part {
    uint32_t rows = 0, dims = 0;  // rows of a block
    bool quads = false;
    size_t offset = 0;  // in the block, in bytes

    size_t bytes(size_t value_bytes) const { return size_t{rows} * dims * value_bytes; }
    size_t at(uint32_t row, uint32_t dim, size_t value_bytes) const {
      return offset + value_bytes * (quads ? (size_t{dim / 4} * rows + row) * 4 + dim % 4
                                           : size_t{dim} * rows + row);
    }
  };
  size_t value_bytes() const { return kernels::dtype_bytes(type_, 1); }
  Part keys() const { return {.rows = kBlockRows, .dims = rank_, .quads = quads(rank_)}; }
  Part bounds() const {
    return {.rows = kBlockRows / kPageRows,
            .dims = 2 * rank_,
            .quads = quads(2 * rank_),
            .offset = keys().bytes(value_bytes())};
  }
  size_t bounds_bytes() const { return candidates_.all() ? 0 : bounds().bytes(value_bytes()); }
  bool quads(uint32_t dims) const;
  void widen(std::byte* block, uint32_t row, std::span<const std::byte> key) const;

  static kernels::Range pages_of(const TopRows& top_rows);
  uint32_t pages_to_weigh(const TopRows& top_rows) const;
  std::span<const kernels::Range> ranges_to_weigh(const SelectRequest& question,
                                                  std::span<const float> queries,
                                                  base::Arena& scratch) const;
  // Returns the weights of the rows of these ranges; queries: [queries][part.dims].
  std::span<float> weights(const SelectRequest& question, const Part& part,
                           std::span<const kernels::Range> ranges, std::span<const float> queries,
                           base::Arena& scratch) const;
  // Sets scores to [queries][stride], of which the rows of the ranges are written.
  void score(const RowsOfHead& rows, const Part& part, std::span<const kernels::Range> ranges,
             std::span<const float> queries, base::Arena& scratch, float* scores,
             size_t stride) const;

  const kernels::Table& kernels_;
  uint32_t rank_;
  kernels::DType type_;
  Candidates candidates_;
};

}  // namespace kvick::kv
