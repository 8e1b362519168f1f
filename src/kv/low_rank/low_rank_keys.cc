#include "kv/low_rank/low_rank_keys.h"

#include <algorithm>
#include <cstring>
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

// A number that grows with the value stored at `at`.
int order_of(kernels::DType type, const std::byte* at) {
  if (type == kernels::DType::kStatic8) return static_cast<int8_t>(*at);
  int16_t bits;  // of an f16: sign and magnitude
  std::memcpy(&bits, at, sizeof bits);
  return bits < 0 ? -(bits & 0x7fff) : bits;
}

}  // namespace

void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const float> key) const {
  std::vector<std::byte> stored(row_bytes());
  kernels_.store_row(type_, key.data(), rank_, stored.data());
  put(rows, row, std::span<const std::byte>(stored));
}

void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> key) const {
  std::byte* const block = rows.summary(row / kBlockRows);
  const size_t bytes = value_bytes();
  const Part part = keys();
  for (uint32_t r = 0; r < rank_; ++r)
    std::copy_n(key.data() + r * bytes, bytes, block + part.at(row % kBlockRows, r, bytes));
  if (!candidates_.all()) widen(block, row % kBlockRows, key);
}

// Widens the bounds of a row's page by its low-rank key. The page's first row sets them.
void LowRankKeys::widen(std::byte* block, uint32_t row, std::span<const std::byte> key) const {
  const size_t bytes = value_bytes();
  const Part part = bounds();
  const bool first = row % kPageRows == 0;
  for (uint32_t r = 0; r < rank_; ++r) {
    const std::byte* const from = key.data() + r * bytes;
    std::byte* const most = block + part.at(row / kPageRows, r, bytes);
    std::byte* const least = block + part.at(row / kPageRows, rank_ + r, bytes);
    if (first || order_of(type_, from) > order_of(type_, most)) std::copy_n(from, bytes, most);
    if (first || order_of(type_, from) < order_of(type_, least)) std::copy_n(from, bytes, least);
  }
}

bool LowRankKeys::quads(uint32_t dims) const {
  return kernels_.score_quads != nullptr && type_ == kernels::DType::kStatic8 && dims % 4 == 0 &&
         dims <= kernels::kMaxQuadDims;
}

uint64_t LowRankKeys::choice_bytes(const TopRows& top_rows) const {
  const uint64_t rows = top_rows.last - top_rows.first;
  const kernels::Range of_rows = pages_of(top_rows);
  const uint32_t pages = of_rows.end - of_rows.begin;
  const uint32_t take = pages_to_weigh(top_rows);
  if (take == pages) return rows * row_bytes();
  return (uint64_t{2} * pages + uint64_t{kPageRows} * take) * row_bytes();
}

kernels::Range LowRankKeys::pages_of(const TopRows& top_rows) {
  return {top_rows.first / kPageRows, (top_rows.last + kPageRows - 1) / kPageRows};
}

// Returns how many of the pages have their rows weighed. Bounds are read only if it is not all.
uint32_t LowRankKeys::pages_to_weigh(const TopRows& top_rows) const {
  const kernels::Range pages = pages_of(top_rows);
  const uint32_t count = pages.end - pages.begin;
  return candidates_.all() ? count : candidates_.pages(top_rows.take, kPageRows, count);
}

void LowRankKeys::choose(const SelectRequest& question, std::span<const float> queries,
                         base::Arena& scratch, SelectedRows& choice) const {
  KVICK_CHECK_EQ(queries.size(), question.queries.size() * rank_);
  const auto ranges = ranges_to_weigh(question, queries, scratch);
  const std::span<float> of_rows = weights(question, keys(), ranges, queries, scratch);
  const auto heaviest = highest(kernels_, of_rows, question.top_rows.take, scratch);
  const std::span<uint32_t> chosen = scratch.make<uint32_t>(heaviest.size());
  std::copy(heaviest.begin(), heaviest.end(), chosen.begin());
  to_rows(ranges, chosen);
  choice.rows = chosen;
}

std::span<const kernels::Range> LowRankKeys::ranges_to_weigh(const SelectRequest& question,
                                                             std::span<const float> queries,
                                                             base::Arena& scratch) const {
  const kernels::Range rows = {question.top_rows.first, question.top_rows.last};
  const std::span<kernels::Range> range = scratch.make<kernels::Range>(1);
  range[0] = rows;
  const kernels::Range pages = pages_of(question.top_rows);
  const uint32_t take = pages_to_weigh(question.top_rows);
  if (take == pages.end - pages.begin) return range;
  const size_t count = queries.size() / rank_;
  const std::span<float> halves = scratch.make<float>(2 * queries.size());
  for (size_t i = 0; i < count; ++i)
    for (uint32_t r = 0; r < rank_; ++r) {
      const float value = queries[i * rank_ + r];
      halves[2 * i * rank_ + r] = std::max(value, 0.0F);
      halves[(2 * i + 1) * rank_ + r] = std::min(value, 0.0F);
    }
  const std::span<float> of_pages = weights(question, bounds(), {&pages, 1}, halves, scratch);
  const auto heaviest = highest(kernels_, of_pages, take, scratch);
  const std::span<uint32_t> chosen = scratch.make<uint32_t>(take);
  for (uint32_t i = 0; i < take; ++i) chosen[i] = pages.begin + heaviest[i];
  return rows_of_pages(chosen, kPageRows, rows, scratch);
}

std::span<float> LowRankKeys::weights(const SelectRequest& question, const Part& part,
                                      std::span<const kernels::Range> ranges,
                                      std::span<const float> queries, base::Arena& scratch) const {
  const uint32_t rows = count_rows(ranges);
  const size_t count = queries.size() / part.dims, most = std::min(kTogether, count);
  const std::span<float> weights = scratch.make<float>(rows);
  const std::span<float> scores = scratch.make<float>(most * rows);
  std::fill(weights.begin(), weights.end(), 0.0F);
  for (size_t first = 0; first < count; first += most) {
    const size_t n = std::min(most, count - first);
    score(question.rows, part, ranges, queries.subspan(first * part.dims, n * part.dims), scratch,
          scores.data(), rows);
    for (size_t i = 0; i < n; ++i) {
      float* const row = scores.data() + i * rows;
      const float sum = kernels_.exp_row(row, rows, 1);
      kernels_.axpy(weights.data(), 1 / sum, row, rows);
    }
  }
  return weights;
}

void LowRankKeys::score(const RowsOfHead& rows, const Part& part,
                        std::span<const kernels::Range> ranges, std::span<const float> queries,
                        base::Arena& scratch, float* scores, size_t stride) const {
  const size_t count = queries.size() / part.dims;
  if (part.quads) {
    const auto blocks = scratch.make<const std::byte*>(rows.blocks.size());
    for (uint32_t b = 0; b < blocks.size(); ++b) blocks[b] = rows.summary(b) + part.offset;
    return kernels_.score_quads(
        {.blocks = blocks.data(), .block_rows = part.rows, .dims = part.dims, .ranges = ranges},
        queries.data(), count, scores, stride);
  }
  const size_t bytes = value_bytes();
  for (const kernels::Range& range : ranges)
    for (uint32_t at = range.begin; at < range.end;) {
      const uint32_t block = at / part.rows;
      const uint32_t n = std::min(range.end, (block + 1) * part.rows) - at;
      if (at + n < range.end) prefetch(rows.summary(block + 1) + part.offset, part.bytes(bytes));
      kernels_.dot_columns(type_, rows.summary(block) + part.at(at % part.rows, 0, bytes),
                           {.rows = n, .stride = part.rows, .dims = part.dims}, queries.data(),
                           count, scores, stride);
      scores += n;
      at += n;
    }
}

}  // namespace kvick::kv
