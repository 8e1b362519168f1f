#include <algorithm>

#include "base/check.h"
#include "kernels/attention/attention_rows.h"

namespace kvick::kernels {
namespace {

constexpr uint32_t kLine = 64;

uint32_t lines_of(const std::byte* first, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(first) % kLine;
  return static_cast<uint32_t>((begin + bytes + kLine - 1) / kLine);
}

// Walks over the rows of some segments in pieces. A piece is consecutive rows of one run.
class RowWalk {
 public:
  explicit RowWalk(std::span<const Segment> segments)
      : segment_(segments.data()), last_segment_(segment_ + segments.size()) {
    enter();
  }

  // Skips n rows. Returns how many of them did not exist.
  uint64_t skip(uint64_t n) {
    while (segment_ != last_segment_) {
      // A paged cache at depth has thousands of runs before a chunk. Summing eight at a time takes
      // about 0.2 ns per run; a test per run takes 1 ns.
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

  // Skips the rows before a position. Rows that are stored in groups are skipped in whole groups.
  void skip_to(uint32_t position) {
    for (; segment_ != last_segment_; ++segment_, enter()) {
      const uint32_t together = rows_together(segment_->k_type);
      const uint32_t from = position / together * together;
      run_ = std::partition_point(run_, last_run_,
                                  [&](const Run& run) { return run.pos + run.rows <= from; });
      if (run_ == last_run_) continue;
      offset_ = from > run_->pos ? from - run_->pos : 0;
      return;
    }
  }

  struct Piece {
    const Segment* segment;
    uint32_t row, rows, pos;
  };
  // Returns the next rows, at most `most`; none at the end.
  Piece next(uint32_t most) {
    skip(0);  // to a run that has rows
    if (segment_ == last_segment_) return {nullptr, 0, 0, 0};
    const Piece piece = {segment_, run_->row + offset_, std::min(run_->rows - offset_, most),
                         run_->pos + offset_};
    offset_ += piece.rows;
    return piece;
  }
  struct ShortRuns {
    const Segment* segment;
    std::span<const Run> runs;
    uint32_t rows;
  };
  // Returns the next consecutive short runs, at most `most` rows in total.
  ShortRuns next_short(uint32_t most) {
    constexpr uint32_t kShort = 8;  // rows
    skip(0);                        // past a run that next() has used up
    if (segment_ == last_segment_ || offset_ > 0) return {};
    const Run* const first = run_;
    uint32_t rows = 0;
    while (run_ != last_run_ && run_->rows <= kShort && rows + run_->rows <= most)
      rows += run_++->rows;
    return {segment_, {first, run_}, rows};
  }
  // Returns the next rows of one run that are at positions below `end`.
  Piece next_before(uint32_t end) {
    skip(0);
    if (segment_ == last_segment_ || run_->pos + offset_ >= end) return {nullptr, 0, 0, 0};
    return next(end - (run_->pos + offset_));
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
  uint32_t offset_ = 0;  // rows of the run that were returned or skipped
};

// Appends rows until the chunk is full. Selected rows come in runs of one or a few rows, so short
// runs are appended several at a time: docs/adr/0070-attention-with-avx2.md.
void append_rows(RowWalk& walk, ChunkRows& rows) {
  while (rows.rows < kChunkRows) {
    const RowWalk::ShortRuns some = walk.next_short(kChunkRows - rows.rows);
    if (some.rows > 0) rows.append_runs(*some.segment, some.runs);
    const RowWalk::Piece piece = walk.next(kChunkRows - rows.rows);
    if (piece.rows == 0) return;
    rows.append(*piece.segment, piece.row, piece.rows);
  }
}

// Appends rows to the places of their positions, up to the chunk's end.
void append_places(RowWalk& walk, ChunkRows& rows) {
  for (;;) {
    const RowWalk::Piece piece = walk.next_before(rows.base + kChunkRows);
    if (piece.rows == 0) return;
    KVICK_CHECK(piece.pos >= rows.base + rows.rows, "position {} behind {}", piece.pos,
                rows.base + rows.rows);
    rows.skip_to(piece.pos - rows.base);
    rows.append(*piece.segment, piece.row, piece.rows);
  }
}

void look_ahead(RowWalk& walk, const Queries& queries, NextRows& next) {
  while (next.rows < kChunkRows) {
    const RowWalk::ShortRuns some = walk.next_short(kChunkRows - next.rows);
    if (some.rows > 0) next.append_runs(some.rows, *some.segment, some.runs, queries);
    const RowWalk::Piece piece = walk.next(kChunkRows - next.rows);
    if (piece.rows == 0) return;
    next.append(*piece.segment, piece.row, piece.rows, queries.k_dim, queries.v_dim);
  }
}

}  // namespace

void StripList::append(const std::byte* first, uint32_t bytes, uint32_t stride, uint32_t rows) {
  const auto add = [&](const std::byte* at, uint32_t step, uint32_t n) {
    if (count == kMost || n == 0) return;
    strips[count++] = {at, step, n};
    lines += n;
  };
  if (stride != bytes && rows > 1) {
    for (uint32_t at = 0; at < bytes; at += kLine) add(first + at, stride, rows);
    return;
  }
  add(first, kLine, lines_of(first, size_t{rows} * bytes));
}

void StripList::append_runs(const std::byte* rows, uint32_t bytes, uint32_t stride,
                            std::span<const Run> runs) {
  // A run of contiguous rows, or of one row, is one strip.
  for (const Run& run : runs) {
    const std::byte* const row = rows + size_t{run.row} * stride;
    if (stride != bytes && run.rows > 1) {
      append(row, bytes, stride, run.rows);
    } else if (count < kMost) {
      const uint32_t n = lines_of(row, size_t{run.rows} * bytes);
      strips[count++] = {row, kLine, n};
      lines += n;
    }
  }
}

namespace {

// The bytes of a segment's rows to prefetch.
struct Asked {
  uint32_t k, v;  // v: 0 if k includes the values
};
Asked asked_of(const Segment& segment, uint32_t k_dim, uint32_t v_dim) {
  const auto k_bytes = static_cast<uint32_t>(dtype_bytes(segment.k_type, k_dim));
  const auto v_bytes = static_cast<uint32_t>(dtype_bytes(segment.v_type, v_dim));
  if (segment.v == segment.k) return {k_bytes, 0};
  if (segment.v == segment.k + k_bytes && segment.k_stride == k_bytes + v_bytes &&
      segment.v_stride == segment.k_stride)  // values directly behind keys: prefetch pairs
    return {segment.k_stride, 0};
  return {k_bytes, v_bytes};
}

}  // namespace

void NextRows::append(const Segment& segment, uint32_t row, uint32_t of_rows, uint32_t k_dim,
                      uint32_t v_dim) {
  const Asked asked = asked_of(segment, k_dim, v_dim);
  rows += of_rows;
  k.append(segment.k + size_t{row} * segment.k_stride, asked.k, segment.k_stride, of_rows);
  if (asked.v > 0)
    v.append(segment.v + size_t{row} * segment.v_stride, asked.v, segment.v_stride, of_rows);
}

void NextRows::append_runs(uint32_t of_rows, const Segment& segment, std::span<const Run> runs,
                           const Queries& queries) {
  const Asked asked = asked_of(segment, queries.k_dim, queries.v_dim);
  rows += of_rows;
  k.append_runs(segment.k, asked.k, segment.k_stride, runs);
  if (asked.v > 0) v.append_runs(segment.v, asked.v, segment.v_stride, runs);
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
  add_to_spans(segment, count);
}

void ChunkRows::append_runs(const Segment& segment, std::span<const Run> runs) {
  uint32_t at = rows;
  for (const Run& run : runs)
    for (uint32_t row = run.row; row < run.row + run.rows; ++row, ++at) {
      k[at] = segment.k + size_t{row} * segment.k_stride;
      v[at] = segment.v + size_t{row} * segment.v_stride;
      bias[at] = segment.row_bias != nullptr ? segment.row_bias[row] : 0;
    }
  add_to_spans(segment, at - rows);
}

void ChunkRows::add_to_spans(const Segment& segment, uint32_t count) {
  const bool latent = segment.v == segment.k;
  RowSpan* last = span_count > 0 ? &spans[span_count - 1] : nullptr;
  if (last != nullptr && last->end == rows && last->latent == latent &&
      last->k_type == segment.k_type && last->v_type == segment.v_type &&
      last->k_scale == segment.k_scale && last->v_scale == segment.v_scale && last->q == segment.q)
    last->end += count;
  else
    spans[span_count++] = {rows,           rows + count,    segment.k_type,
                           segment.v_type, segment.k_scale, segment.v_scale,
                           segment.q,      latent};
  rows += count;
}

void ChunkRows::truncate(uint32_t count) {
  while (span_count > 0 && spans[span_count - 1].begin >= count) --span_count;
  if (span_count > 0) spans[span_count - 1].end = std::min(spans[span_count - 1].end, count);
  rows = std::min(rows, count);
}

namespace {

// Checks that the chunk holds whole groups of rows whose type stores them in groups.
void check_groups(const ChunkRows& rows) {
  for (uint32_t i = 0; i < rows.span_count; ++i) {
    const RowSpan& span = rows.spans[i];
    const uint32_t together = rows_together(span.k_type);
    KVICK_CHECK(span.begin % together == 0 && span.end % together == 0,
                "rows {} to {} of a chunk, of type {}", span.begin, span.end,
                dtype_info(span.k_type).name);
  }
}

// Returns the end of the places that a token sees, if it sees the first `fresh` fresh rows.
uint32_t last_seen(const ChunkRows& rows, uint32_t fresh) {
  if (fresh <= rows.fresh) return rows.past;
  return std::min(rows.past + (fresh - rows.fresh), kChunkRows);
}

// Gathers committed rows by position, for queries with a window.
void gather_places(RowWalk& past, const Queries& queries, uint32_t chunk, ChunkRows& rows) {
  rows.base = first_place(queries) + chunk * kChunkRows;
  const uint32_t fresh = queries.position;
  if (fresh > rows.base)
    rows.past = std::min(fresh - rows.base, kChunkRows);
  else
    rows.fresh = rows.base - fresh;
  past.skip_to(std::max(rows.base, first_seen(queries)));
  append_places(past, rows);
  KVICK_CHECK(rows.rows <= rows.past, "a committed row at position {} of a step that begins at {}",
              rows.base + rows.rows - 1, fresh);
}

}  // namespace

void gather_rows(const View& view, const Queries& queries, uint32_t chunk, ChunkRows& rows) {
  RowWalk past(view.past.span());
  if (queries.window == 0) {
    rows.fresh = static_cast<uint32_t>(past.skip(uint64_t{chunk} * kChunkRows));
    append_rows(past, rows);
    rows.past = rows.rows;
  } else {
    gather_places(past, queries, chunk, rows);
  }
  check_groups(rows);
  look_ahead(past, queries, rows.next);
  if (rows.next.rows == 0 && queries.then != nullptr) {
    RowWalk then(queries.then->past.span());
    if (queries.then_from > 0) then.skip_to(queries.then_from);
    look_ahead(then, queries, rows.next);
  }
  if (rows.past == kChunkRows || queries.visible != nullptr || queries.tokens == 0) return;
  RowWalk fresh({&view.fresh, 1});
  // The places of rows before the window stay empty.
  const uint32_t from = std::max(first_seen(queries), rows.base + rows.past) - rows.base;
  if (from >= kChunkRows) return;
  rows.skip_to(from);
  fresh.skip(rows.fresh + (from - rows.past));
  append_rows(fresh, rows);
  rows.truncate(last_seen(rows, fresh_seen(view, queries, queries.tokens - 1)));
}

SeenRows rows_seen(const View& view, const Queries& queries, const ChunkRows& rows,
                   uint32_t token) {
  const uint32_t end = last_seen(rows, fresh_seen(view, queries, token));
  if (queries.window == 0) return {0, end};
  const uint32_t begin = window_begin(queries, position_of(queries, token));
  if (begin >= rows.base + end) return {0, 0};
  return {begin > rows.base ? begin - rows.base : 0, end};
}

void gather_visible(const View& view, const Queries& queries, uint32_t token, ChunkRows& rows) {
  const SeenRows seen = rows_seen(view, queries, rows, token);
  rows.truncate(rows.past);
  const uint32_t begin = std::max(seen.begin, rows.past);
  if (begin >= seen.end) return;
  rows.skip_to(begin);
  const std::span<const uint32_t> list = queries.visible[queries.first + token];
  const Run* run = view.fresh.runs.data();
  const Run* const end = run + view.fresh.runs.size();
  uint32_t before = 0;  // fresh rows of the runs before `run`
  for (uint32_t place = begin; place < seen.end; ++place) {
    const uint32_t i = rows.fresh + (place - rows.past);
    KVICK_CHECK(i == 0 || list[i] > list[i - 1], "fresh row {} after {}", list[i], list[i - 1]);
    while (run != end && list[i] - before >= run->rows) before += run++->rows;
    KVICK_CHECK(run != end, "fresh row {} of {}", list[i], before);
    rows.append(view.fresh, run->row + (list[i] - before), 1);
  }
}

}  // namespace kvick::kernels
