#include "kernels/attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention_rows.h"

namespace kvick::kernels {
namespace {

// Appends rows [skip, ...) of the segment until the chunk is full; what is left of skip if the
// segment is shorter.
uint64_t append_from(const Segment& segment, uint64_t skip, ChunkRows& rows) {
  const Run* run = segment.runs.data();
  const Run* const end = run + segment.runs.size();
  // A paged cache at depth has thousands of runs in front of a chunk: eight at a time, about a
  // fifth of a nanosecond each, against a nanosecond with a test per run.
  while (end - run >= 8) {
    uint64_t sum = 0;
    for (int i = 0; i < 8; ++i) sum += run[i].rows;
    if (sum > skip) break;
    skip -= sum;
    run += 8;
  }
  for (; run != end && rows.rows < kChunkRows; ++run) {
    if (skip >= run->rows) {
      skip -= run->rows;
      continue;
    }
    const auto first = static_cast<uint32_t>(skip);
    rows.append(segment, run->row + first, std::min(run->rows - first, kChunkRows - rows.rows));
    skip = 0;
  }
  return skip;
}

uint32_t fresh_seen(const View& view, const Queries& queries, uint32_t token) {
  const uint32_t index = queries.first + token;
  if (view.fresh.runs.empty()) return 0;
  return queries.visible != nullptr ? static_cast<uint32_t>(queries.visible[index].size())
                                    : index + 1;
}

}  // namespace

void ChunkRows::append(const Segment& segment, uint32_t row, uint32_t count) {
  if (count == 0) return;
  const std::byte* key = segment.k + static_cast<size_t>(row) * segment.k_stride;
  const std::byte* value = segment.v + static_cast<size_t>(row) * segment.v_stride;
  for (uint32_t i = 0; i < count; ++i, key += segment.k_stride, value += segment.v_stride) {
    k[rows + i] = key;
    v[rows + i] = value;
  }
  for (uint32_t i = 0; i < count; ++i)
    bias[rows + i] = segment.row_bias != nullptr ? segment.row_bias[row + i] : 0;
  RowSpan* last = span_count > 0 ? &spans[span_count - 1] : nullptr;
  if (last != nullptr && last->dtype == segment.dtype && last->q == segment.q)
    last->end += count;
  else
    spans[span_count++] = {rows, rows + count, segment.dtype, segment.q};
  rows += count;
}

void ChunkRows::truncate(uint32_t count) {
  while (span_count > 0 && spans[span_count - 1].begin >= count) --span_count;
  if (span_count > 0) spans[span_count - 1].end = std::min(spans[span_count - 1].end, count);
  rows = std::min(rows, count);
}

void check_row_type(DType type) {
  KVICK_CHECK(type == DType::kF32 || type == DType::kF16 || type == DType::kBF16, "rows of type {}",
              dtype_info(type).name);
}

void check_attention(const View& view, const Queries& queries) {
  KVICK_CHECK(queries.head_dim > 0 && queries.head_dim % 8 == 0 && queries.head_dim <= kMaxHeadDim,
              "head_dim {}", queries.head_dim);
  KVICK_CHECK(queries.group > 0 && queries.group <= kMaxGroup, "group {}", queries.group);
  for (const Segment& segment : view.past) check_row_type(segment.dtype);
  check_row_type(view.fresh.dtype);
  if (view.fresh.runs.empty() || queries.visible != nullptr) return;
  const uint32_t fresh = rows_of(view.fresh);
  KVICK_CHECK(queries.first + queries.tokens <= fresh, "tokens {}+{} of {} fresh rows",
              queries.first, queries.tokens, fresh);
}

void gather_rows(const View& view, const Queries& queries, uint32_t chunk, ChunkRows& rows) {
  uint64_t skip = uint64_t{chunk} * kChunkRows;
  for (const Segment& segment : view.past) {
    if (rows.rows == kChunkRows) break;
    skip = append_from(segment, skip, rows);
  }
  rows.past = rows.rows;
  rows.fresh = static_cast<uint32_t>(skip);
  if (rows.past == kChunkRows || queries.visible != nullptr || queries.tokens == 0) return;
  append_from(view.fresh, skip, rows);
  rows.truncate(rows_seen(view, queries, rows, queries.tokens - 1));
}

uint32_t rows_seen(const View& view, const Queries& queries, const ChunkRows& rows,
                   uint32_t token) {
  const uint32_t fresh = fresh_seen(view, queries, token);
  if (fresh <= rows.fresh) return rows.past;
  return std::min(rows.past + (fresh - rows.fresh), kChunkRows);
}

void gather_visible(const View& view, const Queries& queries, uint32_t token, ChunkRows& rows) {
  const uint32_t count = rows_seen(view, queries, rows, token) - rows.past;
  rows.truncate(rows.past);
  const std::span<const uint32_t> list = queries.visible[queries.first + token];
  const Run* run = view.fresh.runs.data();
  const Run* const end = run + view.fresh.runs.size();
  uint32_t before = 0;  // fresh rows of the runs before `run`
  for (uint32_t i = rows.fresh; i < rows.fresh + count; ++i) {
    KVICK_CHECK(i == 0 || list[i] > list[i - 1], "fresh row {} after {}", list[i], list[i - 1]);
    while (run != end && list[i] - before >= run->rows) before += run++->rows;
    KVICK_CHECK(run != end, "fresh row {} of {}", list[i], before);
    rows.append(view.fresh, run->row + (list[i] - before), 1);
  }
}

uint32_t chunk_count(const View& view, const Queries& queries) {
  uint64_t past = 0;
  for (const Segment& segment : view.past) past += rows_of(segment);
  uint32_t fresh = 0;
  for (uint32_t token = 0; token < queries.tokens; ++token)
    fresh = std::max(fresh, fresh_seen(view, queries, token));
  return static_cast<uint32_t>((past + fresh + kChunkRows - 1) / kChunkRows);
}

}  // namespace kvick::kernels
