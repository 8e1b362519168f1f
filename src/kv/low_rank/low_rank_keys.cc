#include "kv/low_rank/low_rank_keys.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kv/select/row_arithmetic.h"

namespace kvick::kv {
namespace {

// A number that grows with the value stored at `at`.
int order_of(kernels::DType type, const std::byte* at) {
  if (type == kernels::DType::kStatic8) return static_cast<int8_t>(*at);
  int16_t bits;  // of an f16: sign and magnitude
  std::memcpy(&bits, at, sizeof bits);
  return bits < 0 ? -(bits & 0x7fff) : bits;
}

}  // namespace

LowRankKeys::LowRankKeys(const kernels::Table& kernels, uint32_t rank, kernels::DType type,
                         Candidates candidates)
    : kernels_(kernels),
      candidates_(candidates),
      keys_(kernels, {.per_block = kBlockRows, .dims = rank, .type = type}),
      bounds_(kernels, {.per_block = kBlockRows / kPageRows,
                        .dims = 2 * rank,
                        .type = type,
                        .offset = keys_.bytes()}) {}

void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const float> key) const {
  std::vector<std::byte> stored(row_bytes());
  kernels_.store_row(type(), key.data(), rank(), stored.data());
  put(rows, row, std::span<const std::byte>(stored));
}

void LowRankKeys::put(const RowsOfHead& rows, uint32_t row, std::span<const std::byte> key) const {
  std::byte* const block = rows.summary(row / kBlockRows);
  keys_.put(block, row % kBlockRows, key);
  if (!candidates_.all()) widen(block, row % kBlockRows, key);
}

// Widens the bounds of a row's page by its low-rank key. The page's first row sets them.
void LowRankKeys::widen(std::byte* block, uint32_t row, std::span<const std::byte> key) const {
  const size_t bytes = bounds_.value_bytes();
  const uint32_t page = row / kPageRows;
  const bool first = row % kPageRows == 0;
  for (uint32_t r = 0; r < rank(); ++r) {
    const std::byte* const from = key.data() + r * bytes;
    std::byte* const most = bounds_.at(block, page, r);
    std::byte* const least = bounds_.at(block, page, rank() + r);
    if (first || order_of(type(), from) > order_of(type(), most)) std::copy_n(from, bytes, most);
    if (first || order_of(type(), from) < order_of(type(), least)) std::copy_n(from, bytes, least);
  }
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
  KVICK_CHECK_EQ(queries.size(), question.queries.size() * rank());
  const auto ranges = ranges_to_weigh(question, queries, scratch);
  const std::span<float> of_rows = weights(question, keys_, ranges, queries, scratch);
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
  const size_t count = queries.size() / rank();
  const std::span<float> halves = scratch.make<float>(2 * queries.size());
  for (size_t i = 0; i < count; ++i)
    for (uint32_t r = 0; r < rank(); ++r) {
      const float value = queries[i * rank() + r];
      halves[2 * i * rank() + r] = std::max(value, 0.0F);
      halves[(2 * i + 1) * rank() + r] = std::min(value, 0.0F);
    }
  const std::span<float> of_pages = weights(question, bounds_, {&pages, 1}, halves, scratch);
  const auto heaviest = highest(kernels_, of_pages, take, scratch);
  const std::span<uint32_t> chosen = scratch.make<uint32_t>(take);
  for (uint32_t i = 0; i < take; ++i) chosen[i] = pages.begin + heaviest[i];
  return rows_of_pages(chosen, kPageRows, rows, scratch);
}

std::span<float> LowRankKeys::weights(const SelectRequest& question, const BlockVectors& vectors,
                                      std::span<const kernels::Range> ranges,
                                      std::span<const float> queries, base::Arena& scratch) const {
  const uint32_t count = count_rows(ranges);
  const size_t dims = vectors.layout().dims;
  return summed_probabilities(
      kernels_, queries.size() / dims, count, scratch,
      [&](size_t first, size_t n, float* scores) {
        vectors.score(question.rows, ranges, queries.subspan(first * dims, n * dims), scratch,
                      scores, count);
      },
      [&](size_t, std::span<float> scores) {
        return kernels_.exp_row(scores.data(), scores.size(), 1);
      });
}

}  // namespace kvick::kv
