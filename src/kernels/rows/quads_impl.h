#pragma once
// Products of queries with vectors of int8 codes that policies keep, such as low-rank keys and
// bounds of pages (Table::score_quads), for vector types with V::kCodeDots. Included inside a
// target region, after attention_ahead.h.
//
// As for quantised keys (attention_codes.h), a query is rounded to 16-bit integers with one scale
// per 32 dimensions, and integer sums are exact:
//
//   score = fma chain over groups g of 32 dimensions, in order, of dot[g] * query scale[g]
//
// Where rows have scales, query scale[g] is first multiplied by the row's. So the bits depend
// neither on the instruction set nor on where a range of rows begins.

namespace kvick::kernels {
namespace {

template <class V>
struct QuadScores {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int kTile = 4, kVectors = 2;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kMostGroups = kMaxQuadDims / kRowGroup;
  static_assert(kQuadGroup == kRowGroup);
  // Prefetching: where a range or a block is short (kFewRows), run() asks for the one that comes
  // kAhead later. block() asks for the next block while it scores one, which is enough for blocks
  // of kFewRows rows: doing both took 5 % longer.
  static constexpr uint32_t kFewRows = 64, kAhead = 8;
  static constexpr uint32_t kZero = 128;  // codes are signed; V multiplies unsigned ones

  const Quads& quads;
  alignas(64) int8_t first[kTile * kMaxQuadDims];
  alignas(64) int8_t second[kTile * kMaxQuadDims];
  float scale[kTile * kMostGroups];
  int32_t start[kTile * kMostGroups];

  explicit QuadScores(const Quads& some) : quads(some) {}

  void set(const float* q, int queries) {
    for (int m = 0; m < queries; ++m)
      for (uint32_t d = 0; d < quads.dims; d += kRowGroup) {
        float padded[kRowGroup] = {};
        for (uint32_t i = d; i < quads.dims && i < d + kRowGroup; ++i)
          padded[i - d] = q[m * quads.dims + i];
        const uint32_t at = m * kMaxQuadDims + d, group = m * kMostGroups + d / kRowGroup;
        // A query that is not finite may have any sum; its scale makes the scores NaN.
        const auto sum =
            static_cast<uint32_t>(V::split_query(padded, first + at, second + at, scale[group]));
        start[group] = static_cast<int32_t>(0U - kZero * sum);
      }
  }

  const float* scales_at(const std::byte* block, uint32_t row, uint32_t group) const {
    return reinterpret_cast<const float*>(block + quads.scales) +
           (size_t{group} * quads.block_rows + row);
  }

  // Sets to[m][r] to the scores of kLanes rows each, from row `row` of a block on.
  template <int M, int R>
  [[gnu::always_inline]] inline void score(const std::byte* block, uint32_t row,
                                           F (&to)[M][R]) const {
    const uint32_t all = quads.dims / 4;
    for (uint32_t g = 0; g * 8 < all; ++g) {
      I high[M][R], low[M][R];
      KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r) {
        high[m][r] = V::zeros();
        low[m][r] = V::set_int(start[m * kMostGroups + g]);
      }
      const uint32_t end = all < g * 8 + 8 ? all : g * 8 + 8;
      for (uint32_t j = g * 8; j < end; ++j) {
        const std::byte* const line = block + (size_t{j} * quads.block_rows + row) * 4;
        I codes[R];
        KVICK_UNROLL for (int r = 0; r < R; ++r) codes[r] = V::template unsigned_codes<DType::kQ8>(
            reinterpret_cast<const float*>(line + size_t{kLanes} * 4 * r), false);
        KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r) {
          high[m][r] = V::dot_first(high[m][r], codes[r], first + m * kMaxQuadDims + 4 * j);
          low[m][r] = V::dot_second(low[m][r], codes[r], second + m * kMaxQuadDims + 4 * j);
        }
      }
      KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r) {
        const F dot = V::joined(high[m][r], low[m][r]);
        F factor = V::set(scale[m * kMostGroups + g]);
        if (quads.scales != 0)
          factor = V::mul(factor, V::load(scales_at(block, row + r * kLanes, g)));
        to[m][r] = g == 0 ? V::mul(dot, factor) : V::fma(dot, factor, to[m][r]);
      }
    }
  }

  // Scores rows [begin, end) of a block, which is whole vectors long, and prefetches the next
  // block. Blocks lie apart, so the processor's own prefetching begins anew in each.
  template <int M>
  void block(const std::byte* codes, const std::byte* next, uint32_t begin, uint32_t end,
             float* out, size_t stride) const {
    const auto part = [&](uint32_t row) {  // some of the kLanes rows from `row` on
      F scores[M][1];
      score<M, 1>(codes, row, scores);
      alignas(64) float lanes[kLanes];
      for (int m = 0; m < M; ++m) {
        V::store(lanes, scores[m][0]);
        for (uint32_t i = 0; i < kLanes; ++i)
          if (row + i >= begin && row + i < end) out[m * stride + (row + i - begin)] = lanes[i];
      }
    };
    uint32_t row = begin;
    if (row % kLanes != 0) {
      part(row / kLanes * kLanes);
      row = (row / kLanes + 1) * kLanes;
    }
    for (; row + kVectors * kLanes <= end; row += kVectors * kLanes) {
      F scores[M][kVectors];
      for (uint32_t j = 0; j < quads.dims / 4 && next != nullptr; ++j)
        ask_for_lines(next + (size_t{j} * quads.block_rows + row) * 4, 64, kVectors * kLanes / 16);
      for (uint32_t g = 0; quads.scales != 0 && g * kRowGroup < quads.dims && next != nullptr; ++g)
        ask_for_lines(reinterpret_cast<const std::byte*>(scales_at(next, row, g)), 64,
                      kVectors * kLanes / 16);
      score<M, kVectors>(codes, row, scores);
      KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < kVectors; ++r)
          V::store(out + m * stride + (row - begin) + r * kLanes, scores[m][r]);
    }
    for (; row + kLanes <= end; row += kLanes) {
      F scores[M][1];
      score<M, 1>(codes, row, scores);
      KVICK_UNROLL for (int m = 0; m < M; ++m)
          V::store(out + m * stride + (row - begin), scores[m][0]);
    }
    if (row < end) part(row);
  }

  // Prefetches rows [begin, end), up to the end of the block where they begin.
  void ask_for(uint32_t begin, uint32_t end) const {
    const uint32_t b = begin / quads.block_rows, row = begin % quads.block_rows;
    const uint32_t rows =
        end - begin < quads.block_rows - row ? end - begin : quads.block_rows - row;
    const std::byte* line = quads.blocks[b] + size_t{row} * 4;
    const uint32_t lines = (rows + 15) / 16;
    for (uint32_t j = 0; j < quads.dims / 4; ++j, line += size_t{quads.block_rows} * 4)
      ask_for_lines(line, 64, lines);
    for (uint32_t g = 0; quads.scales != 0 && g * kRowGroup < quads.dims; ++g)
      ask_for_lines(reinterpret_cast<const std::byte*>(scales_at(quads.blocks[b], row, g)), 64,
                    lines);
  }

  template <int M>
  void run(const float* q, float* out, size_t stride) {
    set(q, M);
    for (size_t i = 0; i < quads.ranges.size(); ++i) {
      if (i + kAhead < quads.ranges.size()) {
        const Range& later = quads.ranges[i + kAhead];
        if (later.end - later.begin <= kFewRows) ask_for(later.begin, later.end);
      }
      const Range& range = quads.ranges[i];
      for (uint32_t at = range.begin; at < range.end;) {
        const uint32_t b = at / quads.block_rows, begin = b * quads.block_rows;
        const uint32_t end =
            range.end < begin + quads.block_rows ? range.end : begin + quads.block_rows;
        const std::byte* const next = end < range.end ? quads.blocks[b + 1] : nullptr;
        const uint32_t ahead = begin + kAhead * quads.block_rows;
        if (quads.block_rows < kFewRows && ahead < range.end) ask_for(ahead, range.end);
        block<M>(quads.blocks[b], next, at - begin, end - begin, out, stride);
        out += end - at;
        at = end;
      }
    }
  }
};

template <class V>
void score_quads(const Quads& quads, const float* q, size_t queries, float* out, size_t stride) {
  KVICK_CHECK(
      quads.dims % 4 == 0 && quads.dims <= kMaxQuadDims && quads.block_rows % V::kLanes == 0,
      "quads of {} dimensions in blocks of {}", quads.dims, quads.block_rows);
  QuadScores<V> scores(quads);
  const auto step = [&](size_t n) { queries -= n, q += n * quads.dims, out += n * stride; };
  for (; queries >= 4; step(4)) scores.template run<4>(q, out, stride);
  if (queries == 3) scores.template run<3>(q, out, stride);
  if (queries == 2) scores.template run<2>(q, out, stride);
  if (queries == 1) scores.template run<1>(q, out, stride);
}

}  // namespace
}  // namespace kvick::kernels
