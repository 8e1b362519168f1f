#pragma once
// Attention over one chunk, for any vector type of vec_*.h. Included inside a target region.
//
// The order of operations, which alone determines the bits of a result:
//
//   chain[c] = fma(k[j][d], q[d], chain[c]) for d = c, c + kChains, ...
//   dot[j]   = the chains as a fixed tree                 (attention_dots.h)
//   logit[j] = fma(dot[j], scale, bias[j])        scale: Queries::scale * that of static keys
//   sum      = places l, l + kLanes, ... added in order in lane l, then the lanes as a fixed tree
//   acc[d]   = fma(p[j], v[j][d], acc[d]) for j = 0, 1, ...       static v: code * scale, rounded
//
// A dot product does not depend on its block, lane or register tile. So decode and prefill have the
// same bits, although few queries multiply keys as stored and many multiply keys that were
// transposed once for all of them. A place is a row's index in its chunk; with a window it follows
// from the row's position (attention.h). Places before a query's window weigh 0 in the sum, which
// changes no lane, and are left out of acc. With a softcap the logit is computed with bias 0 and
// capped, then bias[j] is added. With slopes, slope * |position - j| is subtracted last, by a fused
// operation where there is fma.
//
// Measured with one thread on Intel with AVX-512 at 3 GHz:
//   - Decode with values converted to a block of floats first: `add_values` takes 1.4 to 1.9 times
//     as long as when it converts them as it loads them. With more than one register tile the block
//     is faster.
//   - Softmax with one vector at a time: 1.25 times the time of four.
//   - Blocks of 32 rows of values in prefill: 1.2 times the time of blocks of 32 KiB.
//   - Register tiles of 12 or 14 queries by two vectors in prefill: 1.08 times the time of 8 by
//     two.
//   - Rows in memory, float16, three queries: 7.6 GB/s without prefetching, 9.8 with keys
//     prefetched in a burst while values are added, 11.6 with even prefetching (attention_ahead.h).
//   - In a run where that was 10.6 GB/s, these changes gave 12.5: addresses and prefetch state
//     moved out of the inner loops, where g++ kept counters in memory and pointers in vector
//     registers; evenly spaced keys by one address; no second prefetch, into the first-level cache.
//     A plain read reached 15.5 GB/s, prefetching alone 18.

namespace kvick::kernels {
namespace {

// Floats from one query's logits to the next. Blocks may write past the last row.
inline constexpr uint32_t kLogitStride = kChunkRows + 4 * kMaxLanes;

alignas(64) constexpr float kNoBias[kChunkRows + 4 * kMaxLanes] = {};

struct Nothing {};
template <class V>
struct CodeQueries;  // both in attention_codes.h
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

template <class V>
struct Attend : RowBlocks<V> {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kKeyBlock = RowBlocks<V>::kKeyBlock;
  static constexpr uint32_t kValueFloats = 8192;  // floats in a block of values: 32 KiB
  static constexpr uint32_t kFewQueries = 8;      // the most that multiply keys as stored
  static constexpr uint32_t kAheadEvery = 8;      // steps of a product between two prefetches

  // Has a constructor because an aggregate would be zeroed entirely at each call.
  Attend(const View& a_view, const Queries& some_queries)
      : RowBlocks<V>(some_queries),
        view(a_view),
        logit_bias(some_queries.softcap == 0 ? rows.bias : kNoBias) {}

  using RowBlocks<V>::queries, RowBlocks<V>::ahead;
  using RowBlocks<V>::block, RowBlocks<V>::scales, RowBlocks<V>::halves;
  using RowBlocks<V>::floats, RowBlocks<V>::kFloatRows;
  const View& view;
  ChunkRows rows;
  // The bias that products add to logits: the rows' bias, or zeros with a softcap, after which the
  // rows' bias is added.
  const float* const logit_bias;
  uint32_t first_row = 0;    // index in the view of the chunk's first row; read only with slopes
  uint32_t count = 0;        // queries of this tile
  uint32_t group_first = 0;  // index of this tile's first query in [tokens][group]
  // Scales of the logits and values of the current span.
  float logit_scale = 1, value_scale = 1;
  SeenRows seen[kTileQueries];
  const float* q[kTileQueries];
  const float* p[kTileQueries];  // probabilities (in logits) of the rows that add_rows() adds
  alignas(64) float logits[kTileQueries * kLogitStride];
  typename CodeMemory<V, V::kCodeDots>::Type codes;

  // -- register tiles --
  // The right operand b of a product: a block, or rows as stored (ValueRows).
  using FromBlock = BlockOperand<V>;

  // acc[m][r] += a[m][i] * b(i, r), i = 0 .. n-1 in order. b is passed by value, so that the
  // compiler knows that prefetching does not change it. Prefetches come only every kAheadEvery
  // steps, so that their state takes no registers beside a, b and acc: g++ moved a and the counter
  // into memory.
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

  // Adds rows to acc of M queries and R vectors of dimensions, of which the last may be partial.
  template <class B>
  struct Add {
    const float* const* p;  // from b's first row on
    B b;
    float* acc;
    uint32_t stride, rows, lanes;  // lanes: dimensions from acc on
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

  // Runs a tile with m and r as compile-time constants.
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
  // Returns the largest r for m queries and `left` vectors.
  static uint32_t vectors(uint32_t m, uint32_t left) {
    if (left >= 4 && m * 4 <= V::kAccumulators) return 4;
    return left >= 2 ? 2 : 1;
  }

  // -- keys --
  void set_queries(const float* override_q) {
    const uint32_t dims = queries.k_dim;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t index = group_first + i;
      const uint32_t token = index / queries.group, head = index % queries.group;
      // override_q has the queries of all of the step's tokens, not only of this tile.
      const size_t of_step = static_cast<size_t>(queries.first) * queries.group + index;
      q[i] = override_q != nullptr ? override_q + of_step * dims
                                   : queries.q + static_cast<size_t>(token) * queries.q_stride +
                                         static_cast<size_t>(head) * dims;
    }
  }

  // Computes the logits of rows [begin, rows.rows) for queries [first, last).
  void score(uint32_t begin, uint32_t first, uint32_t last) {
    score_spans(begin, first, last);
    for (uint32_t i = first; queries.softcap != 0 && begin < rows.rows && i < last; ++i)
      cap_logits<V>(logits + i * kLogitStride + begin, rows.bias + begin, rows.rows - begin,
                    queries.softcap);
    if (queries.window != 0) hide_empty_places(first, last);
    if (queries.slopes != nullptr) lower_far_rows(first, last);
  }
  void lower_far_rows(uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last; ++i) {
      const uint32_t index = group_first + i;
      const uint32_t position = position_of(queries, index / queries.group);
      lower_by_distance<V>(logits + i * kLogitStride, rows.rows,
                           static_cast<float>(static_cast<int64_t>(position) - first_row),
                           queries.slopes[index % queries.group]);
    }
  }
  // Sets the logits of places without a row to -inf.
  void hide_empty_places(uint32_t first, uint32_t last) {
    uint32_t begin = 0;
    for (uint32_t s = 0; s <= rows.span_count; ++s) {
      const uint32_t end = s < rows.span_count ? rows.spans[s].begin : rows.past;
      for (uint32_t i = first; begin < end && i < last; ++i)
        for (uint32_t j = begin; j < end; ++j) logits[i * kLogitStride + j] = -__builtin_inff();
      if (s < rows.span_count) begin = rows.spans[s].end;
    }
  }
  void score_spans(uint32_t begin, uint32_t first, uint32_t last) {
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
      const uint32_t row = span.begin > begin ? span.begin : begin;
      if (span.k_type == DType::kF16) score_rows<DType::kF16>(row, span.end, first, last);
      if (span.k_type == DType::kBF16) score_rows<DType::kBF16>(row, span.end, first, last);
      if (span.k_type == DType::kF32) score_rows<DType::kF32>(row, span.end, first, last);
      if (span.k_type == DType::kQ3) score_rows<DType::kQ3>(row, span.end, first, last);
      if (span.k_type == DType::kQ2) score_rows<DType::kQ2>(row, span.end, first, last);
      if (span.k_type == DType::kStatic16) score_rows<DType::kStatic16>(row, span.end, first, last);
      if (span.k_type == DType::kStatic8) score_rows<DType::kStatic8>(row, span.end, first, last);
    }
  }
  // Computes the logits of rows [row, end).
  template <DType T>
  void score_rows(uint32_t row, uint32_t end, uint32_t first, uint32_t last) {
    if constexpr (!is_cache_code(T) || !V::kCodeDots)
      if (last - first <= kFewQueries)
        return key_dots<T>(rows.k + row, row, end - row, first, last);
    if constexpr (T == DType::kF32)
      for (; row < end; row += kFloatRows)
        column_dots(rows.k + row, row, end - row < kFloatRows ? end - row : kFloatRows, first,
                    last);
    else
      score_converted(row, end, first, last, [this](const std::byte* const* key, float* to) {
        this->template convert_key<T>(*key, to);
      });
  }
  // Computes the logits of rows that convert(rows.k + row, to) converts to floats.
  template <class Convert>
  void score_converted(uint32_t row, uint32_t end, uint32_t first, uint32_t last,
                       const Convert& convert) {
    const std::byte* keys[kFloatRows];
    for (; row < end; row += kFloatRows) {
      const uint32_t n = end - row < kFloatRows ? end - row : kFloatRows;
      for (uint32_t i = 0; i < n; ++i) {
        float* const to = floats + size_t{i} * kMaxHeadDim;
        if (i % kAheadEvery == 0) ahead.work(kAheadEvery * queries.k_dim * kLoadWork);
        convert(rows.k + row + i, to);
        keys[i] = reinterpret_cast<const std::byte*>(to);
      }
      if (last - first <= kFewQueries)
        key_dots<DType::kF32>(keys, row, n, first, last);
      else
        column_dots(keys, row, n, first, last);
    }
  }
  // Computes the logits of n keys, the first of which is row `row`.
  template <DType T>
  void key_dots(const std::byte* const* keys, uint32_t row, uint32_t n, uint32_t first,
                uint32_t last) {
    KeyDots<V, T>{.queries = q + first, .dims = queries.k_dim, .scale = logit_scale, .ahead = ahead}
        .run(keys, n, last - first, logit_bias + row, logits + first * kLogitStride + row,
             kLogitStride);
  }
  // Does the same for float32 keys, transposed once for all queries.
  void column_dots(const std::byte* const* keys, uint32_t row, uint32_t n, uint32_t first,
                   uint32_t last) {
    this->transpose_keys(keys, n);
    const uint32_t panels = (n + kLanes - 1) / kLanes;
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < ColumnDots<V>::kTile ? last - i : ColumnDots<V>::kTile;
      for (uint32_t panel = 0; panel < panels;) {
        const uint32_t r = panels - panel < 2 ? 1 : 2, lane = panel * kLanes;
        ahead.work(m * r * kLanes * queries.k_dim);
        run_tile(ColumnDots<V>{.queries = q + i,
                               .dims = queries.k_dim,
                               .keys = block + lane,
                               .key_stride = kKeyBlock,
                               .scale = logit_scale,
                               .bias = logit_bias + row + lane,
                               .out = logits + i * kLogitStride + row + lane,
                               .stride = kLogitStride},
                 m, r);
        panel += r;
      }
      i += m;
    }
  }

  // -- keys with one scale per channel --
  // The span is whole groups of committed rows, as gather_rows() has checked.
  void score_kivi(const RowSpan& span, uint32_t first, uint32_t last) {
    uint32_t in_group = 0;
    score_converted(span.begin, span.end, first, last, [&](const std::byte* const* key, float* to) {
      if (in_group == 0) KiviKeys<V>::load_scales(key, queries.k_dim, halves, scales);
      in_group = (in_group + 1) % kGroupRows;
      KiviKeys<V>::expand(*key, queries.k_dim, scales, to);
    });
  }

  // -- quantised keys --
  template <DType T>
  void score_codes(const RowSpan& span, uint32_t begin, uint32_t first, uint32_t last) {
    const uint32_t from = span.begin > begin ? span.begin : begin;
    if constexpr (V::kCodeDots) {
      for (uint32_t i = first; i < last; ++i) codes.template set<T>(i, q[i], queries.k_dim);
      for (uint32_t row = from; row < span.end; row += kKeyBlock) {
        const uint32_t n = span.end - row < kKeyBlock ? span.end - row : kKeyBlock;
        const uint32_t panels = (n + kLanes - 1) / kLanes;
        this->template load_key_scales<T>(rows.k + row, n, panels * kLanes);
        this->template transpose_codes<T>(rows.k + row, n);
        score_code_block<T>(row, panels, first, last);
      }
    } else {
      score_rows<T>(from, span.end, first, last);
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
        ahead.work(m * r * kLanes * queries.k_dim);
        Tile{.queries = codes,
             .keys = {block, scales, queries.k_dim / kRowGroup},
             .query = i,
             .row = lane,
             .scale = logit_scale,
             .bias = logit_bias + row + lane,
             .out = logits + i * kLogitStride + row + lane,
             .stride = kLogitStride}
            .run(m, r);
        panel += r;
      }
      i += m;
    }
  }
  // -- values --
  // Adds the values of rows [begin, rows.rows) to acc of queries [first, last).
  void add_values(uint32_t begin, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t s = 0; s < rows.span_count; ++s) {
      const RowSpan& span = rows.spans[s];
      if (span.end <= begin) continue;
      const uint32_t row = span.begin > begin ? span.begin : begin;
      value_scale = span.v_scale;
      if (span.v_type == DType::kF16) add_span<DType::kF16>(span, row, first, last, acc);
      if (span.v_type == DType::kBF16) add_span<DType::kBF16>(span, row, first, last, acc);
      if (span.v_type == DType::kF32) add_span<DType::kF32>(span, row, first, last, acc);
      if (span.v_type == DType::kQ8) add_span<DType::kQ8>(span, row, first, last, acc);
      if (span.v_type == DType::kQ4) add_span<DType::kQ4>(span, row, first, last, acc);
      if (span.v_type == DType::kQ3) add_span<DType::kQ3>(span, row, first, last, acc);
      if (span.v_type == DType::kQ2) add_span<DType::kQ2>(span, row, first, last, acc);
      if (span.v_type == DType::kStatic8) add_span<DType::kStatic8>(span, row, first, last, acc);
      if (span.v_type == DType::kStatic16) add_span<DType::kStatic16>(span, row, first, last, acc);
      if (span.v_type == DType::kKivi4V) add_span<DType::kKivi4V>(span, row, first, last, acc);
    }
  }
  template <DType T>
  void add_span(const RowSpan& span, uint32_t row, uint32_t first, uint32_t last, float* acc) {
    const uint32_t end = span.end;
    const ValueRows<V, T> values =
        this->template values_of<T>(rows.v + row, end - row, span.latent, value_scale);
    // In decode, one register tile of queries converts each value only once anyway.
    if (last - first <= V::kTile && queries.v_dim % kLanes == 0)
      return add_tiles(values, row, end - row, first, last, acc);
    const uint32_t padded = this->padded_dims();
    const uint32_t at_once = kValueFloats / padded;
    for (uint32_t done = 0; done < end - row; done += at_once) {
      const uint32_t left = end - row - done, n = left < at_once ? left : at_once;
      this->template convert_values<T>(values.skip(done), n);
      add_tiles(FromBlock{block, padded}, row + done, n, first, last, acc);
    }
  }
  // Returns which of the n rows from `row` on a query sees.
  SeenRows seen_of(uint32_t query, uint32_t row, uint32_t n) const {
    const auto within = [&](uint32_t place) {
      return place <= row ? 0 : place - row < n ? place - row : n;
    };
    return {within(seen[query].begin), within(seen[query].end)};
  }
  // Adds rows that all queries of a register tile see together, and other rows one query at a time.
  // A row that a query does not see cannot be added with weight 0, because it may hold NaN.
  template <class B>
  void add_tiles(const B& b, uint32_t row, uint32_t n, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < V::kTile ? last - i : V::kTile;
      SeenRows common = {0, n};
      for (uint32_t j = i; j < i + m; ++j) {
        const SeenRows own = seen_of(j, row, n);
        if (own.begin > common.begin) common.begin = own.begin;
        if (own.end < common.end) common.end = own.end;
      }
      if (common.begin >= common.end) common = {n, n};
      for (uint32_t j = i; common.begin > 0 && j < i + m; ++j) {
        SeenRows own = seen_of(j, row, n);
        if (own.end > common.begin) own.end = common.begin;
        if (own.begin < own.end) add_rows(b, row, own, j, 1, acc);
      }
      if (common.begin < common.end) add_rows(b, row, common, i, m, acc);
      for (uint32_t j = i; j < i + m; ++j) {
        const SeenRows own = {common.end, seen_of(j, row, n).end};
        if (own.begin < own.end) add_rows(b, row, own, j, 1, acc);
      }
      i += m;
    }
  }
  // Adds rows [part.begin, part.end) of b, whose row 0 is row `row` of the chunk, for m queries.
  template <class B>
  void add_rows(const B& from, uint32_t row, SeenRows part, uint32_t query, uint32_t m,
                float* acc) {
    const uint32_t dims = queries.v_dim, n = part.end - part.begin;
    const B b = from.skip(part.begin);
    for (uint32_t j = 0; j < m; ++j) p[j] = logits + (query + j) * kLogitStride + row + part.begin;
    for (uint32_t d = 0; d < dims;) {
      const uint32_t r = vectors(m, (dims - d + kLanes - 1) / kLanes);
      float* const to = acc + static_cast<size_t>(query) * dims + d;
      run_tile(Add<B>{p, b.from_dim(d), to, dims, n, dims - d, ahead}, m, r);
      d += r * kLanes;
    }
  }

  // -- one tile of queries --
  // Computes the partial result and probabilities of tokens [first, first + tokens).
  void attend(uint32_t first, uint32_t tokens, Partial out, float* probs) {
    const uint32_t group = queries.group, dims = queries.v_dim;
    group_first = first * group;
    count = tokens * group;
    for (uint32_t i = 0; i < count; ++i)
      seen[i] = rows_seen(view, queries, rows, first + i / group);
    float* const acc = out.acc + static_cast<size_t>(group_first) * dims;
    for (size_t i = 0; i < static_cast<size_t>(count) * dims; ++i) acc[i] = 0;

    const bool lists = queries.visible != nullptr;
    rows.truncate(lists ? rows.past : kChunkRows);
    ahead.start(rows.next, rows.rows * (KeyDots<V, DType::kF16>::work(1, count, queries.k_dim) +
                                        dims * (ValueRows<V, DType::kF16>::kConvertWork + count)));
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
    for (uint32_t j = 0; j < kChunkRows; ++j)
      to[j] = j >= seen[i].begin && j < seen[i].end ? from[j] : 0;
  }
};

// The 600 KiB of scratch are on the stack, so nothing is allocated or kept between calls. Decode
// touches about 20 KiB of them.
template <class V>
void attend_chunk(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                  float* probs) {
  check_attention(view, queries);
  Attend<V> state(view, queries);
  state.first_row = chunk * kChunkRows;
  gather_rows(view, queries, chunk, state.rows);
  const uint32_t at_once = kTileQueries / queries.group;
  for (uint32_t t = 0; t < queries.tokens; t += at_once) {
    const uint32_t left = queries.tokens - t;
    state.attend(t, left < at_once ? left : at_once, out, probs);
  }
}

}  // namespace
}  // namespace kvick::kernels
