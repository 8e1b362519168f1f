#include "kv/select/low_rank_keys.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/memory.h"

namespace kvick::kv {
namespace {

constexpr size_t kTogether = 4;  // queries per pass over the keys

// Asks for a block that is read next. Blocks lie apart, so the processor does not foresee it.
void prefetch(const std::byte* block, size_t bytes) {
  for (size_t at = 0; at < bytes; at += base::kCacheLine) __builtin_prefetch(block + at, 0, 2);
}

}  // namespace

void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const float> key) const {
  std::vector<std::byte> stored(row_bytes());
  kernels_.store_row(type_, key.data(), rank_, stored.data());
  put(rows, row, std::span<const std::byte>(stored));
}

// A block is [rank][kBlockRows], because dot_columns reads one value of many rows at a time, or
// [rank / 4][kBlockRows][4].
void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> key) const {
  if (quads()) {
    std::byte* at = rows.summary(row / kBlockRows) + size_t{row % kBlockRows} * 4;
    for (uint32_t r = 0; r < rank_; r += 4, at += size_t{kBlockRows} * 4)
      std::copy_n(key.data() + r, 4, at);
    return;
  }
  const size_t bytes = kernels::dtype_bytes(type_, 1);
  std::byte* at = rows.summary(row / kBlockRows) + row % kBlockRows * bytes;
  for (uint32_t r = 0; r < rank_; ++r, at += kBlockRows * bytes)
    std::copy_n(key.data() + r * bytes, bytes, at);
}

void LowRankKeys::choose(const SelectRequest& question, std::span<const float> queries,
                         base::Arena& scratch, SelectedRows& choice) const {
  const TopRows& top_rows = question.top_rows;
  const uint32_t rows = top_rows.last - top_rows.first;
  const size_t count = question.queries.size(), most = std::min(kTogether, count);
  KVICK_CHECK_EQ(queries.size(), count * rank_);
  const std::span<float> weights = scratch.make<float>(rows);
  const std::span<float> scores = scratch.make<float>(most * rows);
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (size_t first = 0; first < count; first += most) {
    const size_t n = std::min(most, count - first);
    score(question, queries.subspan(first * rank_, n * rank_), scratch, scores);
    for (size_t i = 0; i < n; ++i) {
      float* const row = scores.data() + i * rows;
      const float sum = kernels_.exp_row(row, rows, 1);
      kernels_.axpy(weights.data(), 1 / sum, row, rows);
    }
  }
  const auto heaviest = highest(kernels_, weights, top_rows.take, scratch);
  const std::span<uint32_t> chosen = scratch.make<uint32_t>(top_rows.take);
  for (uint32_t i = 0; i < chosen.size(); ++i) chosen[i] = top_rows.first + heaviest[i];
  choice.rows = chosen;
}

// Sets scores to [queries][last - first].
void LowRankKeys::score(const SelectRequest& question, std::span<const float> queries,
                        base::Arena& scratch, std::span<float> scores) const {
  if (quads()) {
    const TopRows& top_rows = question.top_rows;
    const auto blocks = scratch.make<const std::byte*>(question.rows.blocks.size());
    for (uint32_t b = 0; b < blocks.size(); ++b) blocks[b] = question.rows.summary(b);
    return kernels_.score_quads({.blocks = blocks.data(),
                                 .block_rows = kBlockRows,
                                 .dims = rank_,
                                 .first = top_rows.first,
                                 .last = top_rows.last},
                                queries.data(), queries.size() / rank_, scores.data(),
                                top_rows.last - top_rows.first);
  }
  const size_t bytes = kernels::dtype_bytes(type_, 1);
  const TopRows& top_rows = question.top_rows;
  for (uint32_t at = top_rows.first; at < top_rows.last;) {
    const uint32_t block = at / kBlockRows;
    const uint32_t rows = std::min(top_rows.last, (block + 1) * kBlockRows) - at;
    if (at + rows < top_rows.last) prefetch(question.rows.summary(block + 1), summary().bytes);
    kernels_.dot_columns(type_, question.rows.summary(block) + at % kBlockRows * bytes,
                         {.rows = rows, .stride = kBlockRows, .dims = rank_}, queries.data(),
                         queries.size() / rank_, scores.data() + (at - top_rows.first),
                         top_rows.last - top_rows.first);
    at += rows;
  }
}

}  // namespace kvick::kv
