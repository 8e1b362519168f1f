#pragma once
// Low-rank keys, kept beside the rows: their layout, and how they choose rows. A row's weight for a
// KV head is its softmax probability by the products of low-rank queries and keys, summed over the
// queries that share the view: all queries of the group and of the step's tokens.

#include "kv/select/selector.h"

namespace kvick::kv {

class LowRankKeys {
 public:
  // rank: values of a low-rank key; type: one that kernels::Table::dot_columns takes.
  LowRankKeys(const kernels::Table& kernels, uint32_t rank, kernels::DType type)
      : kernels_(kernels), rank_(rank), type_(type) {}

  uint32_t rank() const { return rank_; }
  kernels::DType type() const { return type_; }
  size_t row_bytes() const { return kernels::dtype_bytes(type_, rank_); }
  SummaryShape summary() const { return {.rows = kBlockRows, .bytes = kBlockRows * row_bytes()}; }
  // Returns the bytes of low-rank keys that one choice reads.
  uint64_t choice_bytes(const TopRows& top_rows) const {
    return (top_rows.last - top_rows.first) * row_bytes();
  }

  // Stores the low-rank key of a row: `rank` floats, or row_bytes() bytes made from them by
  // store_row().
  void put(const RowsOfHead& rows, uint32_t row, std::span<const float> key) const;
  void put(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> key) const;

  // Chooses rows with one low-rank query per query of the request: queries [queries][rank].
  void choose(const SelectRequest& question, std::span<const float> queries, base::Arena& scratch,
              SelectedRows& choice) const;

 private:
  static constexpr uint32_t kBlockRows = 256;

  // Whether a block is quads (kernels::Quads), not columns.
  bool quads() const {
    return kernels_.score_quads != nullptr && type_ == kernels::DType::kStatic8 && rank_ % 4 == 0;
  }
  void score(const SelectRequest& question, std::span<const float> queries, base::Arena& scratch,
             std::span<float> scores) const;

  const kernels::Table& kernels_;
  uint32_t rank_;
  kernels::DType type_;
};

}  // namespace kvick::kv
