#include "kernels/attention/attention.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention_rows.h"
#include "kernels/formats/cache_row.h"

namespace kvick::kernels {
namespace {

// Goes through the rows of some segments, in pieces that lie behind one another.
class RowWalk {
 public:
  explicit RowWalk(std::span<const Segment> segments)
      : segment_(segments.data()), last_segment_(segment_ + segments.size()) {
    enter();
  }

  // Passes over n rows; how many of them there were not.
  uint64_t skip(uint64_t n) {
    while (segment_ != last_segment_) {
      // A paged cache at depth has thousands of runs in front of a chunk: eight at a time, about a
      // fifth of a nanosecond each, against a nanosecond with a test per run.
      while (offset_ == 0 && last_run_ - run_ >= 8) {
        uint64_t sum = 0;
        for (int i = 0; i < 8; ++i) sum += run_[i].rows;
        if (sum > n) break;
        n -= sum;
        run_ += 8;
      }
      for (; run_ != last_run_; ++run_, offset_ = 0) {
        const uint32_t left = run_->rows - offset_;
        if (n < left) {
          offset_ += static_cast<uint32_t>(n);
          return 0;
        }
        n -= left;
      }
      ++segment_;
      enter();
    }
    return n;
  }

  struct Piece {
    const Segment* segment;
    uint32_t row, rows;
  };
  // The next rows, at most `most`; none at the end.
  Piece next(uint32_t most) {
    skip(0);  // to a run that has rows
    if (segment_ == last_segment_) return {nullptr, 0, 0};
    const Piece piece = {segment_, run_->row + offset_, std::min(run_->rows - offset_, most)};
    offset_ += piece.rows;
    return piece;
  }

 private:
  void enter() {
    if (segment_ == last_segment_) return;
    run_ = segment_->runs.data();
    last_run_ = run_ + segment_->runs.size();
    offset_ = 0;
  }

  const Segment *segment_, *last_segment_;
  const Run *run_ = nullptr, *last_run_ = nullptr;
  uint32_t offset_ = 0;  // rows of the run that have been passed
};

// Appends rows until the chunk is full.
void append_rows(RowWalk& walk, ChunkRows& rows) {
  while (rows.rows < kChunkRows) {
    const RowWalk::Piece piece = walk.next(kChunkRows - rows.rows);
    if (piece.rows == 0) return;
    rows.append(*piece.segment, piece.row, piece.rows);
  }
}

void look_ahead(RowWalk& walk, uint32_t head_dim, NextRows& next) {
  while (next.rows < kChunkRows) {
    const RowWalk::Piece piece = walk.next(kChunkRows - next.rows);
    if (piece.rows == 0) return;
    next.append(*piece.segment, piece.row, piece.rows, head_dim);
  }
}

uint32_t fresh_seen(const View& view, const Queries& queries, uint32_t token) {
  const uint32_t index = queries.first + token;
  if (view.fresh.runs.empty()) return 0;
  return queries.visible != nullptr ? static_cast<uint32_t>(queries.visible[index].size())
                                    : index + 1;
}

}  // namespace

void StripList::append(const std::byte* first, uint32_t bytes, uint32_t stride, uint32_t rows) {
  constexpr uint32_t kLine = 64;
  const auto add = [&](const std::byte* at, uint32_t step, uint32_t n) {
    if (count == kMost || n == 0) return;
    strips[count++] = {at, step, n};
    lines += n;
  };
  if (stride != bytes) {
    for (uint32_t at = 0; at < bytes; at += kLine) add(first + at, stride, rows);
    return;
  }
  const auto begin = reinterpret_cast<uintptr_t>(first) % kLine;
  add(first, kLine, static_cast<uint32_t>((begin + size_t{rows} * bytes + kLine - 1) / kLine));
}

void NextRows::append(const Segment& segment, uint32_t row, uint32_t of_rows, uint32_t head_dim) {
  const std::byte* const key = segment.k + static_cast<size_t>(row) * segment.k_stride;
  const std::byte* const value = segment.v + static_cast<size_t>(row) * segment.v_stride;
  const auto k_bytes = static_cast<uint32_t>(dtype_bytes(segment.k_type, head_dim));
  const auto v_bytes = static_cast<uint32_t>(dtype_bytes(segment.v_type, head_dim));
  rows += of_rows;
  if (segment.v == segment.k + k_bytes && segment.k_stride == k_bytes + v_bytes &&
      segment.v_stride == segment.k_stride)  // each value behind its key: all lines, in order
    return k.append(key, segment.k_stride, segment.k_stride, of_rows);
  k.append(key, k_bytes, segment.k_stride, of_rows);
  v.append(value, v_bytes, segment.v_stride, of_rows);
}

void ChunkRows::append(const Segment& segment, uint32_t row, uint32_t count) {
  if (count == 0) return;
  const std::byte* key = segment.k + static_cast<size_t>(row) * segment.k_stride;
  const std::byte* value = segment.v + static_cast<size_t>(row) * segment.v_stride;
  for (uint32_t i = 0; i < count; ++i, key += segment.k_stride) k[rows + i] = key;
  for (uint32_t i = 0; i < count; ++i, value += segment.v_stride) v[rows + i] = value;
  if (segment.row_bias != nullptr)
    std::copy_n(segment.row_bias + row, count, bias + rows);
  else
    std::fill_n(bias + rows, count, 0.0F);
  RowSpan* last = span_count > 0 ? &spans[span_count - 1] : nullptr;
  if (last != nullptr && last->k_type == segment.k_type && last->v_type == segment.v_type &&
      last->k_scale == segment.k_scale && last->v_scale == segment.v_scale && last->q == segment.q)
    last->end += count;
  else
    spans[span_count++] = {rows,           rows + count,    segment.k_type,
                           segment.v_type, segment.k_scale, segment.v_scale,
                           segment.q};
  rows += count;
}

void ChunkRows::truncate(uint32_t count) {
  while (span_count > 0 && spans[span_count - 1].begin >= count) --span_count;
  if (span_count > 0) spans[span_count - 1].end = std::min(spans[span_count - 1].end, count);
  rows = std::min(rows, count);
}

void check_row_type(DType type, size_t n) {
  const bool code = is_cache_code(type) || type == DType::kKivi4V;
  KVICK_CHECK(
      code || is_static(type) || type == DType::kF32 || type == DType::kF16 || type == DType::kBF16,
      "rows of type {}", dtype_info(type).name);
  KVICK_CHECK(!code || n % kRowGroup == 0, "rows of {} values of type {}", n,
              dtype_info(type).name);
}

void check_dot_type(DType type) {
  KVICK_CHECK(dtype_info(type).block == 1, "products of rows of type {}", dtype_info(type).name);
}

namespace {

void check_key_type(DType type, size_t n) {
  KVICK_CHECK(type != DType::kKivi4V, "keys of type {}", dtype_info(type).name);
  check_row_type(type, n);
}

// Where rows go together, chunks hold whole groups.
void check_groups(const ChunkRows& rows) {
  for (uint32_t i = 0; i < rows.span_count; ++i) {
    const RowSpan& span = rows.spans[i];
    const uint32_t together = rows_together(span.k_type);
    KVICK_CHECK(span.begin % together == 0 && span.end % together == 0,
                "rows {} to {} of a chunk, of type {}", span.begin, span.end,
                dtype_info(span.k_type).name);
  }
}

}  // namespace

void check_attention(const View& view, const Queries& queries) {
  KVICK_CHECK(queries.head_dim > 0 && queries.head_dim % 8 == 0 && queries.head_dim <= kMaxHeadDim,
              "head_dim {}", queries.head_dim);
  KVICK_CHECK(queries.group > 0 && queries.group <= kMaxGroup, "group {}", queries.group);
  auto check = [&](const Segment& segment, bool fresh) {
    // Keys of a group come together, which fresh rows do not: some queries see but a few of them.
    if (rows_together(segment.k_type) == 1 || fresh)
      check_key_type(segment.k_type, queries.head_dim);
    else
      check_group_type(segment.k_type, queries.head_dim);
    check_row_type(segment.v_type, queries.head_dim);
  };
  for (const Segment& segment : view.past) check(segment, false);
  check(view.fresh, true);
  if (view.fresh.runs.empty() || queries.visible != nullptr) return;
  const uint32_t fresh = rows_of(view.fresh);
  KVICK_CHECK(queries.first + queries.tokens <= fresh, "tokens {}+{} of {} fresh rows",
              queries.first, queries.tokens, fresh);
}

void gather_rows(const View& view, const Queries& queries, uint32_t chunk, ChunkRows& rows) {
  RowWalk past(view.past.span());
  const uint64_t before = past.skip(uint64_t{chunk} * kChunkRows);
  append_rows(past, rows);
  check_groups(rows);
  rows.past = rows.rows;
  rows.fresh = static_cast<uint32_t>(before);
  look_ahead(past, queries.head_dim, rows.next);
  if (rows.next.rows == 0 && queries.then != nullptr) {
    RowWalk then(queries.then->past.span());
    look_ahead(then, queries.head_dim, rows.next);
  }
  if (rows.past == kChunkRows || queries.visible != nullptr || queries.tokens == 0) return;
  RowWalk fresh({&view.fresh, 1});
  fresh.skip(before);
  append_rows(fresh, rows);
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

bool has_prompt_tiles(DType k_type, DType v_type) {
  const auto is_float = [](DType type) {
    return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32;
  };
  return is_float(k_type) && is_float(v_type);
}

}  // namespace kvick::kernels
