#pragma once
// Attention over one chunk, for any vector type of vec_*.h. Included inside a target region.
//
// The order of operations, which is all that the bits of a result depend on:
//
//   dot[j]   = fma(k[j][d], q[d], dot[j]) for d = 0, 1, ..., one chain
//   logit[j] = fma(dot[j], scale, bias[j])        scale: of the logits, times that of static keys
//   sum      = rows l, l + kLanes, ... added in order in lane l, then the lanes as a fixed tree
//   acc[d]   = fma(p[j], v[j][d], acc[d]) for j = 0, 1, ...       v: code * scale, rounded, if
//   static
//
// So the lanes of a dot product are rows, not dimensions: a block of keys is transposed once, in
// registers, for all queries, nothing is summed across lanes, and a dot does not know in which
// block, lane or register tile it is. Both products are then the same small matrix product, of
// queries or probabilities with a block of floats in the first-level cache, and decode and prefill
// are the same code with 1 to 8, or 16 to 128, queries.
//
// Bounds and what was measured (AVX-512 at 3 GHz, one thread of a shared machine, ticks of 0.43 ns
// for one chunk of 256 rows, head_dim 64, float16): transposing the keys 3100, softmax 150 a query,
// both products 510 a query at the peak of the FMA units and 1.2 to 1.3 times that here.
//   - Values through a block of floats in decode: 1.4 to 1.9 times the time of `add_values` against
//     converting them on the way into the register tile. With more than one tile the block wins.
//   - Softmax with one vector at a time: 1.25 times the time of four.
//   - Blocks of 32 rows of values in prefill: 1.2 times the time of blocks of 32 KiB.
//   - Register tiles of 12 or 14 queries by two vectors in prefill: 1.08 times the time of 8 by
//   two.
//   - Transposing whole registers after converting: about equal on this machine, where loads and
//     conversions of the block bind as much as the shuffles; twice the shuffles all the same.
//   - Out of memory, one thread, float16, three queries: 7.6 GB/s without asking for rows ahead,
//     9.8 with keys asked for in a burst while values are added, 11.6 evenly (attention_ahead.h).
//   - Where that was 10.6 (14.2 out of the second-level cache; q8 7.9 and 8.4), 12.5 (17.6; q8 9.5
//     and 10.1) came of: addresses and the state of asking out of the inner loops, for which g++
//     kept counters in memory and pointers in vector registers; keys at an even distance by one
//     address; keys of decode left as halves in the block, converted by the product; not asking for
//     rows a second time, into the first-level cache. A plain read has 15.5 there, asking alone 18.

namespace kvick::kernels {
namespace {

// From one query's logits to the next: blocks may write past the last row.
inline constexpr uint32_t kLogitStride = kChunkRows + 4 * kMaxLanes;

struct Nothing {};
template <class V>
struct CodeQueries;  // these two: attention_codes.h
template <class V, DType T>
struct CodeScore;
template <class V, bool kUsed>
struct CodeMemory {
  using Type = Nothing;
};
template <class V>
struct CodeMemory<V, true> {
  using Type = CodeQueries<V>;
};

// Rows by their addresses, at an even distance.
struct EvenRows {
  const std::byte* first;
  size_t stride;
  const std::byte* operator[](size_t i) const { return first + i * stride; }
};
// N of them: whether they are.
template <uint32_t N>
bool evenly_spaced(const std::byte* const* rows) {
  const ptrdiff_t stride = rows[N > 1 ? 1 : 0] - rows[0];
  ptrdiff_t off = 0;
  for (uint32_t i = 1; i < N; ++i) off |= (rows[i] - rows[i - 1]) ^ stride;
  return off == 0;
}

template <class V>
struct Attend {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kKeyBlock = 4 * kLanes;  // rows of a block of keys
  static constexpr uint32_t kValueFloats = 8192;     // of a block of values: 32 KiB
  static constexpr uint32_t kAheadEvery = 8;     // steps of a product between asking for rows ahead
  static constexpr uint32_t kTransposeWork = 3;  // of an element, in products: see RowsAhead
  static constexpr uint32_t kBlockFloats = kMaxHeadDim * 4 * kMaxLanes;

  // A constructor, because an aggregate would be zeroed, all 220 KiB of it, at each call.
  Attend(const View& a_view, const Queries& some_queries) : view(a_view), queries(some_queries) {}

  const View& view;
  const Queries& queries;
  ChunkRows rows;
  uint32_t count = 0;        // queries of this tile
  uint32_t group_first = 0;  // index of the first, in [tokens][group]
  // Of the span that is worked on: scale of its logits, scale of its values.
  float logit_scale = 1, value_scale = 1;
  RowsAhead ahead;
  uint32_t seen[kTileQueries];
  const float* q[kTileQueries];
  const float* p[kTileQueries];  // the rows of logits
  alignas(64) float logits[kTileQueries * kLogitStride];
  // Keys as [head_dim][kKeyBlock] (of codes: see attention_codes.h), or values as
  // [rows][padded_dims()].
  alignas(64) float block[kBlockFloats];
  // Of quantised rows: [head_dim/32][kKeyBlock] for a block of keys, [rows][head_dim/32] for
  // values, of kKivi4V pairs of scale and zero point; of kKivi4K see KiviKeys.
  alignas(64) float scales[kChunkRows * kMaxHeadDim / kRowGroup * 2];
  alignas(64) std::byte halves[kChunkRows * kMaxHeadDim / kRowGroup * 4];  // as they lie in rows
  typename CodeMemory<V, V::kCodeDots>::Type codes;

  // -- register tiles --
  // b of a product: from the block, or straight from rows (ValueRows).
  using FromBlock = BlockOperand<V>;

  // acc[m][r] += a[m][i] * b(i, r), i = 0 .. n-1 in order. b by value: what it points to does not
  // change while rows are asked for. Those in blocks of steps, so that what the asking needs is not
  // held in registers next to a, b and acc: g++ moved a and the counter into memory.
  template <int M, int R, class B>
  [[gnu::always_inline]] static inline void multiply(const float* const* a, const B b, uint32_t n,
                                                     F (&acc)[M][R], RowsAhead& ahead) {
    const float* rows_a[M];
    for (int m = 0; m < M; ++m) rows_a[m] = a[m];
    uint32_t i = 0;
    if constexpr (B::kAsks)
      for (; i + kAheadEvery <= n; i += kAheadEvery) {
        ahead.work(kAheadEvery * R * kLanes * (M + B::kConvertWork));
        for (uint32_t j = i; j < i + kAheadEvery; ++j) multiply_row<M, R>(rows_a, b, j, acc);
      }
    for (; i < n; ++i) multiply_row<M, R>(rows_a, b, i, acc);
  }
  template <int M, int R, class B>
  [[gnu::always_inline]] static inline void multiply_row(const float* const* a, const B& b,
                                                         size_t i, F (&acc)[M][R]) {
    F lanes[R];
    KVICK_UNROLL for (int r = 0; r < R; ++r) lanes[r] = b(i, r);
    KVICK_UNROLL for (int m = 0; m < M; ++m) {
      const F x = V::set(a[m][i]);
      KVICK_UNROLL for (int r = 0; r < R; ++r) acc[m][r] = V::fma(lanes[r], x, acc[m][r]);
    }
  }

  // Logits of M queries and R vectors of rows.
  template <class B>
  struct Score {
    Attend& self;
    B block;
    uint32_t query, row;
    template <int M, int R>
    void run() const {
      F acc[M][R];
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r) acc[m][r] = V::zero();
      multiply<M, R>(self.q + query, block, self.queries.head_dim, acc, self.ahead);
      const F scale = V::set(self.logit_scale);
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r)
          V::store(self.logits + (query + m) * kLogitStride + row + r * kLanes,
                   V::fma(acc[m][r], scale, V::load(self.rows.bias + row + r * kLanes)));
    }
  };

  // acc of M queries and R vectors of dimensions, the last of them perhaps not a whole one.
  template <class B>
  struct Add {
    const float* const* p;  // from b's first row on
    B b;
    float* acc;
    uint32_t stride, rows, lanes;  // lanes: dimensions from here on
    RowsAhead& ahead;
    template <int M, int R>
    void run() const {
      F sum[M][R];
      const int tail = static_cast<int>(lanes) - (R - 1) * static_cast<int>(kLanes);
      const bool whole = tail >= static_cast<int>(kLanes);
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r) {
          const float* from = acc + m * stride + r * kLanes;
          sum[m][r] = whole || r + 1 < R ? V::load(from) : V::load_part(from, tail);
        }
      multiply<M, R>(p, b, rows, sum, ahead);
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r) {
          float* to = acc + m * stride + r * kLanes;
          if (whole || r + 1 < R)
            V::store(to, sum[m][r]);
          else
            V::store_part(to, sum[m][r], tail);
        }
    }
  };

  // Runs a tile with m, r as constants.
  template <int M, class Tile>
  static void run_vectors(const Tile& tile, uint32_t r) {
    if constexpr (M * 4 <= V::kAccumulators)
      if (r == 4) return tile.template run<M, 4>();
    if (r == 2) return tile.template run<M, 2>();
    tile.template run<M, 1>();
  }
  template <class Tile, int M = V::kTile>
  static void run_tile(const Tile& tile, uint32_t m, uint32_t r) {
    if (m == M) return run_vectors<M>(tile, r);
    if constexpr (M > 1) run_tile<Tile, M - 1>(tile, m, r);
  }
  // The largest r for m queries, of `left` vectors.
  static uint32_t vectors(uint32_t m, uint32_t left) {
    if (left >= 4 && m * 4 <= V::kAccumulators) return 4;
    return left >= 2 ? 2 : 1;
  }

  // -- keys --
  // take(rows, i, work): kRows of the keys from key i on, by their addresses rows[0], rows[1], ...;
  // behind the last of them copies of it. work: for RowsAhead, at each of `steps` steps.
  template <uint32_t kRows, class Take>
  [[gnu::always_inline]] inline void transpose(const std::byte* const* keys, uint32_t n,
                                               uint32_t steps, const Take& take) {
    const uint32_t work = kRows * queries.head_dim / steps * kTransposeWork;
    for (uint32_t i = 0; i < n; i += kRows) {
      if (i + kRows <= n && evenly_spaced<kRows>(keys + i)) {
        take(EvenRows{keys[i], static_cast<size_t>(keys[i + (kRows > 1)] - keys[i])}, i, work);
      } else {
        const std::byte* from[kRows];
        for (uint32_t l = 0; l < kRows; ++l) from[l] = keys[i + l < n ? i + l : n - 1];
        take(from, i, work);
      }
    }
  }
  // block[d][i] = key i, dimension d.
  template <DType T, class To>
  void transpose_keys(const std::byte* const* keys, uint32_t n, To* to) {
    constexpr uint32_t kRows = V::template kKeyRows<T>, kDims = V::template kKeyDims<T>;
    const uint32_t dims = queries.head_dim;
    transpose<kRows>(
        keys, n, dims < 2 * kDims ? 1 : dims / (2 * kDims),
        [&](const auto& from, uint32_t i, uint32_t work) __attribute__((always_inline)) {
          uint32_t d = 0;
          for (; d + 2 * kDims <= dims; d += 2 * kDims) {
            ahead.work(work);
            V::template transpose_keys<T, 2>(from, size_t{d} * kElementBytes<T>,
                                             to + d * kKeyBlock + i, kKeyBlock);
          }
          if (d < dims)
            V::template transpose_keys<T, 1>(from, size_t{d} * kElementBytes<T>,
                                             to + d * kKeyBlock + i, kKeyBlock);
        });
  }

  void set_queries(const float* override_q) {
    const uint32_t dims = queries.head_dim;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t index = group_first + i;
      const uint32_t token = index / queries.group, head = index % queries.group;
      // Of all the step's tokens, not of these alone.
      const size_t of_step = static_cast<size_t>(queries.first) * queries.group + index;
      q[i] = override_q != nullptr ? override_q + of_step * dims
                                   : queries.q + static_cast<size_t>(token) * queries.q_stride +
                                         static_cast<size_t>(head) * dims;
    }
  }

  // Logits of rows [begin, rows.rows) for queries [first, last).
  void score(uint32_t begin, uint32_t first, uint32_t last) {
    for (uint32_t s = 0; s < rows.span_count; ++s) {
      const RowSpan& span = rows.spans[s];
      if (span.end <= begin) continue;
      set_queries(span.q);
      logit_scale = queries.scale * span.k_scale;
      if (span.k_type == DType::kQ8) {
        score_codes<DType::kQ8>(span, begin, first, last);
        continue;
      }
      if (span.k_type == DType::kQ4) {
        score_codes<DType::kQ4>(span, begin, first, last);
        continue;
      }
      if (span.k_type == DType::kKivi4K) {
        score_kivi(span, first, last);
        continue;
      }
      for (uint32_t row = span.begin > begin ? span.begin : begin; row < span.end;
           row += kKeyBlock) {
        const uint32_t n = span.end - row < kKeyBlock ? span.end - row : kKeyBlock;
        if (span.k_type == DType::kF16 && last - first <= V::kTile) {
          auto* const to = reinterpret_cast<uint16_t*>(block);
          transpose_keys<DType::kF16>(rows.k + row, n, to);
          score_block(HalfBlock<V>{to, kKeyBlock}, row, (n + kLanes - 1) / kLanes, first, last);
          continue;
        }
        if (span.k_type == DType::kF16) transpose_keys<DType::kF16>(rows.k + row, n, block);
        if (span.k_type == DType::kBF16) transpose_keys<DType::kBF16>(rows.k + row, n, block);
        if (span.k_type == DType::kF32) transpose_keys<DType::kF32>(rows.k + row, n, block);
        if (span.k_type == DType::kStatic16)
          transpose_keys<DType::kStatic16>(rows.k + row, n, block);
        if (span.k_type == DType::kStatic8) expand_codes<DType::kStatic8>(rows.k + row, n);
        score_block(FromBlock{block, kKeyBlock}, row, (n + kLanes - 1) / kLanes, first, last);
      }
    }
  }
  template <class B>
  void score_block(const B& b, uint32_t row, uint32_t panels, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < V::kTile ? last - i : V::kTile;
      for (uint32_t panel = 0; panel < panels;) {
        const uint32_t r = vectors(m, panels - panel);
        const uint32_t lane = panel * kLanes;
        if constexpr (!B::kAsks) ahead.work(m * r * kLanes * queries.head_dim);
        run_tile(Score<B>{*this, b.from_dim(lane), i, row + lane}, m, r);
        panel += r;
      }
      i += m;
    }
  }

  // -- keys with scales of channels --
  // Whole groups of committed rows: gather_rows() has checked it.
  void score_kivi(const RowSpan& span, uint32_t first, uint32_t last) {
    constexpr uint32_t kRows = KiviKeys<V>::kRows;
    for (uint32_t row = span.begin; row < span.end; row += kKeyBlock) {
      const uint32_t n = span.end - row < kKeyBlock ? span.end - row : kKeyBlock;
      for (uint32_t i = 0; i < n; i += kRows) {
        const std::byte* const* const keys = rows.k + row + i;
        if ((row + i) % kGroupRows == 0)
          KiviKeys<V>::load_scales(keys, queries.head_dim, halves, scales);
        for (uint32_t g = 0; g < queries.head_dim / kRowGroup; ++g) {
          ahead.work(kRows * kRowGroup * kTransposeWork);
          KiviKeys<V>::expand(keys, g, scales, block + i, kKeyBlock);
        }
      }
      score_block(FromBlock{block, kKeyBlock}, row, n / kLanes, first, last);
    }
  }

  // -- quantised keys --
  template <DType T>
  void score_codes(const RowSpan& span, uint32_t begin, uint32_t first, uint32_t last) {
    if constexpr (V::kCodeDots)
      for (uint32_t i = first; i < last; ++i) codes.template set<T>(i, q[i], queries.head_dim);
    for (uint32_t row = span.begin > begin ? span.begin : begin; row < span.end; row += kKeyBlock) {
      const uint32_t n = span.end - row < kKeyBlock ? span.end - row : kKeyBlock;
      const uint32_t panels = (n + kLanes - 1) / kLanes;
      if constexpr (V::kCodeDots) {
        transpose_codes<T>(rows.k + row, n);
        load_key_scales<T>(rows.k + row, n, panels * kLanes);
        score_code_block<T>(row, panels, first, last);
      } else {
        expand_codes<T>(rows.k + row, n);
        score_block(FromBlock{block, kKeyBlock}, row, panels, first, last);
      }
    }
  }
  // block[line][i] = four codes of key i; see CodeKeys.
  template <DType T>
  void transpose_codes(const std::byte* const* keys, uint32_t n) {
    constexpr uint32_t kRows = V::template kKeyRows<DType::kF32>;
    constexpr uint32_t kPieces = T == DType::kQ8 ? 2 : 1;  // of 16 bytes, in a group
    const uint32_t groups = queries.head_dim / kRowGroup;
    transpose<kRows>(
        keys, n,
        groups, [&](const auto& from, uint32_t i, uint32_t work) __attribute__((always_inline)) {
          for (uint32_t g = 0; g < groups; ++g) {
            ahead.work(work);
            V::template transpose_keys<DType::kF32, kPieces>(
                from, size_t{g} * kPieces * 16, block + g * kPieces * 4 * kKeyBlock + i, kKeyBlock);
          }
        });
  }
  // Lanes [n, lanes) repeat the last key, as the codes do.
  template <DType T>
  void load_key_scales(const std::byte* const* keys, uint32_t n, uint32_t lanes) {
    const uint32_t groups = queries.head_dim / kRowGroup;
    collect_scales<T>(keys, n);
    for (uint32_t g = 0; g < groups; ++g) {
      float* to = scales + g * kKeyBlock;
      if (groups == 2)
        for (uint32_t i = 0; i < n; i += kLanes)
          V::store(to + i, V::half_of_pairs(halves + i * 4, g));
      else
        for (uint32_t i = 0; i < n; ++i) to[i] = V::half(halves + (i * groups + g) * 2);
      for (uint32_t i = n; i < lanes; ++i) to[i] = to[n - 1];
    }
  }
  // halves[i][s] = number s of row i. Two or four at a time where there are so many: most of the
  // time goes into finding them.
  template <DType T>
  void collect_scales(const std::byte* const* from, uint32_t n) {
    const uint32_t in_row = queries.head_dim / kRowGroup * kScales<T>;
    const size_t offset = code_bytes(T, queries.head_dim);
    if (in_row == 2) {
      for (uint32_t i = 0; i < n; ++i) __builtin_memcpy(halves + i * 4, from[i] + offset, 4);
    } else if (in_row == 4) {
      for (uint32_t i = 0; i < n; ++i) __builtin_memcpy(halves + i * 8, from[i] + offset, 8);
    } else {
      for (uint32_t i = 0; i < n * in_row; ++i)
        __builtin_memcpy(halves + i * 2, from[i / in_row] + offset + i % in_row * 2, 2);
    }
  }
  template <DType T>
  void score_code_block(uint32_t row, uint32_t panels, uint32_t first, uint32_t last) {
    using Tile = CodeScore<V, T>;
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < Tile::kTile ? last - i : Tile::kTile;
      for (uint32_t panel = 0; panel < panels;) {
        const uint32_t r = panels - panel < Tile::kVectors ? 1 : Tile::kVectors;
        const uint32_t lane = panel * kLanes;
        ahead.work(m * r * kLanes * queries.head_dim);
        Tile{.queries = codes,
             .keys = {block, scales, queries.head_dim / kRowGroup},
             .query = i,
             .row = lane,
             .scale = logit_scale,
             .bias = rows.bias + row + lane,
             .out = logits + i * kLogitStride + row + lane,
             .stride = kLogitStride}
            .run(m, r);
        panel += r;
      }
      i += m;
    }
  }
  // Without integer products: the keys as floats, which is exact, into the block as
  // transpose_keys() leaves them. A vector may be stored past a row's end: the next row is next.
  template <DType T>
  void expand_codes(const std::byte* const* keys, uint32_t n) {
    constexpr uint32_t kRows = V::template kKeyRows<DType::kF32>;
    constexpr uint32_t kDims = V::template kKeyDims<DType::kF32>;
    const uint32_t dims = queries.head_dim;
    alignas(64) float expanded[kRows * kMaxHeadDim];
    const std::byte* from[kRows];
    for (uint32_t l = 0; l < kRows; ++l)
      from[l] = reinterpret_cast<const std::byte*>(expanded + l * dims);
    for (uint32_t i = 0; i < n; i += kRows) {
      for (uint32_t l = 0; l < kRows; ++l) {
        const std::byte* key = keys[i + l < n ? i + l : n - 1];
        for (uint32_t d = 0; d < dims; d += kLanes)
          V::store(expanded + l * dims + d, key_floats<V, T>(key, d, dims));
      }
      for (uint32_t d = 0; d < dims; d += kDims)
        V::template transpose_keys<DType::kF32, 1>(from, d * sizeof(float),
                                                   block + d * kKeyBlock + i, kKeyBlock);
    }
  }

  // -- values --
  // block[i][d] = value i, dimension d, zero up to a whole vector.
  template <DType T>
  void convert_values(const ValueRows<V, T>& values, uint32_t n) {
    const uint32_t dims = queries.head_dim, padded = padded_dims();
    for (uint32_t i = 0; i < n; ++i) {
      float* to = block + i * padded;
      const uint32_t whole = dims / kLanes;
      for (uint32_t r = 0; r < whole; ++r)
        V::store(to + r * kLanes, values(i, static_cast<int>(r)));
      if constexpr (kLanes > 8 && kScales<T> == 0) {
        const uint32_t d = whole * kLanes;
        if (d < dims) V::store(to + d, values.part(i, d, 8));
      }
    }
  }
  // Values from `row` on as they lie, with the scales of quantised ones.
  template <DType T>
  ValueRows<V, T> values_of(uint32_t row, uint32_t n) {
    const uint32_t in_row = queries.head_dim / kRowGroup * kScales<T>;
    if constexpr (kScales<T> != 0) {
      collect_scales<T>(rows.v + row, n);
      for (uint32_t i = 0; i < n * in_row; i += kLanes)
        V::store(scales + i, V::template load_row<DType::kF16>(halves + i * 2));
    }
    return {.rows = rows.v + row,
            .dim = 0,
            .scales = kScales<T> != 0 ? scales : nullptr,
            .in_row = in_row,
            .scale = value_scale};
  }
  uint32_t padded_dims() const { return (queries.head_dim + kLanes - 1) / kLanes * kLanes; }

  // acc of queries [first, last) with rows [begin, rows.rows) added.
  void add_values(uint32_t begin, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t s = 0; s < rows.span_count; ++s) {
      const RowSpan& span = rows.spans[s];
      if (span.end <= begin) continue;
      const uint32_t row = span.begin > begin ? span.begin : begin;
      value_scale = span.v_scale;
      if (span.v_type == DType::kF16) add_span<DType::kF16>(row, span.end, first, last, acc);
      if (span.v_type == DType::kBF16) add_span<DType::kBF16>(row, span.end, first, last, acc);
      if (span.v_type == DType::kF32) add_span<DType::kF32>(row, span.end, first, last, acc);
      if (span.v_type == DType::kQ8) add_span<DType::kQ8>(row, span.end, first, last, acc);
      if (span.v_type == DType::kQ4) add_span<DType::kQ4>(row, span.end, first, last, acc);
      if (span.v_type == DType::kStatic8)
        add_span<DType::kStatic8>(row, span.end, first, last, acc);
      if (span.v_type == DType::kStatic16)
        add_span<DType::kStatic16>(row, span.end, first, last, acc);
      if (span.v_type == DType::kKivi4V) add_span<DType::kKivi4V>(row, span.end, first, last, acc);
    }
  }
  template <DType T>
  void add_span(uint32_t row, uint32_t end, uint32_t first, uint32_t last, float* acc) {
    // Decode: one register tile of queries converts each value once anyway.
    const ValueRows<V, T> values = values_of<T>(row, end - row);
    if (last - first <= V::kTile && queries.head_dim % kLanes == 0)
      return add_tiles(values, row, end - row, first, last, acc);
    const uint32_t padded = padded_dims();
    const uint32_t at_once = kValueFloats / padded;
    for (uint32_t done = 0; done < end - row; done += at_once) {
      const uint32_t left = end - row - done, n = left < at_once ? left : at_once;
      convert_values<T>(values.skip(done), n);
      add_tiles(FromBlock{block, padded}, row + done, n, first, last, acc);
    }
  }
  uint32_t seen_of(uint32_t query, uint32_t row, uint32_t n) const {
    if (seen[query] <= row) return 0;
    return seen[query] - row < n ? seen[query] - row : n;
  }
  // Rows that all queries of a register tile see together, the others one query at a time: a row
  // that a query does not see must not be added as zero, it may hold anything.
  template <class B>
  void add_tiles(const B& b, uint32_t row, uint32_t n, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < V::kTile ? last - i : V::kTile;
      uint32_t common = n;
      for (uint32_t j = i; j < i + m; ++j) {
        const uint32_t own = seen_of(j, row, n);
        if (own < common) common = own;
      }
      if (common > 0) add_rows(b, row, common, i, m, acc);
      for (uint32_t j = i; j < i + m; ++j) {
        const uint32_t own = seen_of(j, row, n);
        if (own > common) add_rows(b.skip(common), row + common, own - common, j, 1, acc);
      }
      i += m;
    }
  }
  // n rows of b, which are rows `row` and on of the chunk, to m queries.
  template <class B>
  void add_rows(const B& b, uint32_t row, uint32_t n, uint32_t query, uint32_t m, float* acc) {
    const uint32_t dims = queries.head_dim;
    for (uint32_t j = 0; j < m; ++j) p[j] = logits + (query + j) * kLogitStride + row;
    for (uint32_t d = 0; d < dims;) {
      const uint32_t r = vectors(m, (dims - d + kLanes - 1) / kLanes);
      float* const to = acc + static_cast<size_t>(query) * dims + d;
      run_tile(Add<B>{p, b.from_dim(d), to, dims, n, dims - d, ahead}, m, r);
      d += r * kLanes;
    }
  }

  // -- one tile of queries --
  // Tokens [first, first + tokens) of the queries; their partial and probabilities.
  void attend(uint32_t first, uint32_t tokens, Partial out, float* probs) {
    const uint32_t group = queries.group, dims = queries.head_dim;
    group_first = first * group;
    count = tokens * group;
    for (uint32_t i = 0; i < count; ++i)
      seen[i] = rows_seen(view, queries, rows, first + i / group);
    float* const acc = out.acc + static_cast<size_t>(group_first) * dims;
    for (size_t i = 0; i < static_cast<size_t>(count) * dims; ++i) acc[i] = 0;

    const bool lists = queries.visible != nullptr;
    rows.truncate(lists ? rows.past : kChunkRows);
    ahead.start(
        rows.next,
        rows.rows * dims * (kTransposeWork + ValueRows<V, DType::kF16>::kConvertWork + 2 * count));
    score(0, 0, count);
    for (uint32_t t = 0; lists && t < tokens; ++t) {
      gather_visible(view, queries, first + t, rows);
      score(rows.past, t * group, (t + 1) * group);
    }
    for (uint32_t i = 0; i < count; ++i) {
      soften<V>(logits + i * kLogitStride, seen[i], out.max[group_first + i],
                out.sum[group_first + i]);
      if (probs != nullptr) copy_probs(i, probs + (group_first + i) * size_t{kChunkRows});
    }
    rows.truncate(lists ? rows.past : kChunkRows);
    add_values(0, 0, count, acc);
    for (uint32_t t = 0; lists && t < tokens; ++t) {
      gather_visible(view, queries, first + t, rows);
      add_values(rows.past, t * group, (t + 1) * group, acc);
    }
  }
  void copy_probs(uint32_t i, float* to) const {
    const float* from = logits + i * kLogitStride;
    for (uint32_t j = 0; j < kChunkRows; ++j) to[j] = j < seen[i] ? from[j] : 0;
  }
};

// Scratch of 220 KiB on the stack, of which decode touches a tenth: no allocation, nothing kept
// between calls.
template <class V>
void attend_chunk(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                  float* probs) {
  check_attention(view, queries);
  Attend<V> state(view, queries);
  gather_rows(view, queries, chunk, state.rows);
  const uint32_t at_once = kTileQueries / queries.group;
  for (uint32_t t = 0; t < queries.tokens; t += at_once) {
    const uint32_t left = queries.tokens - t;
    state.attend(t, left < at_once ? left : at_once, out, probs);
  }
}

}  // namespace
}  // namespace kvick::kernels
