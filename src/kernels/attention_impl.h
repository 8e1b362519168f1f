#pragma once
// Attention over one chunk, for any vector type of vec_*.h. Included inside a target region.
//
// The order of operations, which is all that the bits of a result depend on:
//   logit[j] = fma(dot, scale, bias[j]); dot = sum over d = 0, 1, ... of fma(k[d], q[d], dot), one
//   chain; sum      = lane l of a vector adds the rows l, l + kLanes, ... in order, then the lanes
//   as a fixed tree; acc[d]   = fma(p[j], v[j][d], acc[d]) for j = 0, 1, ...
// So the lanes of a dot product are rows, not dimensions: a block of keys is transposed once, in
// registers, for all queries, nothing is ever summed across lanes, and the dot does not know in
// which block, lane or register tile it is. Both products are then the same small matrix product,
// of `a` (queries, or probabilities) with a block of floats in the first-level cache, and decode
// and prefill are the same code with 1 to 8, or 48 to 128, rows of `a`.

namespace kvick::kernels {
namespace {

inline constexpr uint32_t kTileQueries =
    kMaxGroup;  // queries that share one conversion of the rows
inline constexpr uint32_t kLogitStride =
    kChunkRows + 4 * kMaxLanes;  // blocks may write past the last row

template <class V>
struct Attend {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kKeyBlock = 4 * kLanes;  // rows of a block of keys
  static constexpr uint32_t kValueBlock =
      32;  // rows of a block of values: 16 KiB at 128 dimensions

  // A constructor, because an aggregate would be zeroed, all 210 KiB of it, at each call.
  Attend(const View& a_view, const Queries& some_queries) : view(a_view), queries(some_queries) {}

  const View& view;
  const Queries& queries;
  ChunkRows rows;
  uint32_t count = 0;        // queries of this tile
  uint32_t group_first = 0;  // index of the first, in [tokens][group]
  uint32_t seen[kTileQueries];
  const float* q[kTileQueries];
  const float* p[kTileQueries];  // the rows of logits
  alignas(64) float logits[kTileQueries * kLogitStride];
  alignas(64) float block[kMaxHeadDim * 4 *
                          kMaxLanes];  // keys: [head_dim][kKeyBlock]; values: [kValueBlock][padded]

  // -- register tiles
  // -----------------------------------------------------------------------------------------------
  // acc[m][r] += a[m][i] * b[i][r], i = 0 .. n-1 in order.
  template <int M, int R>
  [[gnu::always_inline]] static inline void multiply(const float* const* a, const float* b,
                                                     uint32_t b_stride, uint32_t n,
                                                     F (&acc)[M][R]) {
    const float* rows_a[M];
    for (int m = 0; m < M; ++m) rows_a[m] = a[m];
    for (uint32_t i = 0; i < n; ++i, b += b_stride) {
      F lanes[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) lanes[r] = V::load(b + r * kLanes);
#pragma GCC unroll 8
      for (int m = 0; m < M; ++m) {
        const F x = V::set(rows_a[m][i]);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) acc[m][r] = V::fma(lanes[r], x, acc[m][r]);
      }
    }
  }

  // Logits of M queries and R vectors of rows.
  struct Score {
    Attend& self;
    const float* block;
    uint32_t query, row;
    template <int M, int R>
    void run() const {
      F acc[M][R];
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r) acc[m][r] = V::zero();
      multiply<M, R>(self.q + query, block, kKeyBlock, self.queries.head_dim, acc);
      const F scale = V::set(self.queries.scale);
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r)
          V::store(self.logits + (query + m) * kLogitStride + row + r * kLanes,
                   V::fma(acc[m][r], scale, V::load(self.rows.bias + row + r * kLanes)));
    }
  };

  // acc of M queries and R vectors of dimensions, the last of them perhaps not a whole one.
  struct Add {
    const float* const* p;  // from the block's first row on
    const float* block;
    float* acc;
    uint32_t stride, rows, padded, lanes;  // lanes: dimensions from here on
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
      multiply<M, R>(p, block, padded, rows, sum);
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

  // -- keys
  // ---------------------------------------------------------------------------------------------------------
  // block[d][i] = key i, dimension d; i < n is filled up to a whole vector with copies of the last
  // row.
  template <DType T>
  void transpose_keys(const std::byte* const* keys, uint32_t n) {
    constexpr uint32_t kBytes = T == DType::kF32 ? 4 : 2;
    const uint32_t dims = queries.head_dim;
    for (uint32_t i = 0; i < n; i += kLanes) {
      const std::byte* from[kLanes];
      for (uint32_t l = 0; l < kLanes; ++l) from[l] = keys[i + l < n ? i + l : n - 1];
      uint32_t d = 0;
      for (; d + kLanes <= dims; d += kLanes) {
        F x[kLanes];
#pragma GCC unroll 16
        for (uint32_t l = 0; l < kLanes; ++l) x[l] = V::template load_row<T>(from[l] + d * kBytes);
        V::transpose(x);
#pragma GCC unroll 16
        for (uint32_t l = 0; l < kLanes; ++l) V::store(block + (d + l) * kKeyBlock + i, x[l]);
      }
      if constexpr (kLanes > 8) {
        if (d == dims) continue;
        F x[kLanes];
#pragma GCC unroll 16
        for (uint32_t l = 0; l < kLanes; ++l)
          x[l] = V::template load_row_part<T>(from[l] + d * kBytes, 8);
        V::transpose(x);
#pragma GCC unroll 8
        for (uint32_t l = 0; l < 8; ++l) V::store(block + (d + l) * kKeyBlock + i, x[l]);
      }
    }
  }

  void set_queries(const float* override_q) {
    const uint32_t dims = queries.head_dim;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t index = group_first + i;
      const uint32_t token = index / queries.group, head = index % queries.group;
      q[i] = override_q != nullptr ? override_q + static_cast<size_t>(index) * dims
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
      for (uint32_t row = span.begin > begin ? span.begin : begin; row < span.end;
           row += kKeyBlock) {
        const uint32_t n = span.end - row < kKeyBlock ? span.end - row : kKeyBlock;
        if (span.dtype == DType::kF16) transpose_keys<DType::kF16>(rows.k + row, n);
        if (span.dtype == DType::kBF16) transpose_keys<DType::kBF16>(rows.k + row, n);
        if (span.dtype == DType::kF32) transpose_keys<DType::kF32>(rows.k + row, n);
        score_block(row, (n + kLanes - 1) / kLanes, first, last);
      }
    }
  }
  void score_block(uint32_t row, uint32_t panels, uint32_t first, uint32_t last) {
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < V::kTile ? last - i : V::kTile;
      for (uint32_t panel = 0; panel < panels;) {
        const uint32_t r = vectors(m, panels - panel);
        const uint32_t lane = panel * kLanes;
        run_tile(Score{*this, block + lane, i, row + lane}, m, r);
        panel += r;
      }
      i += m;
    }
  }

  // -- softmax
  // ------------------------------------------------------------------------------------------------------
  // Logits of query i to exp(logit - max), zero behind the rows it sees.
  void soften(uint32_t i, float& max_out, float& sum_out) {
    float* x = logits + i * kLogitStride;
    const uint32_t n = seen[i], whole = (n + kLanes - 1) / kLanes * kLanes;
    for (uint32_t j = n; j < whole; ++j) x[j] = -__builtin_inff();
    F high = V::set(-__builtin_inff());
    for (uint32_t j = 0; j < n; j += kLanes) high = V::max(V::load(x + j), high);
    const float max = V::largest(high);
    max_out = max;
    // Without a row, or with only -inf ones: -inf minus -inf would be NaN.
    const F base = V::set(max == -__builtin_inff() ? 0 : max);
    F sum = V::zero();
    for (uint32_t j = 0; j < n; j += kLanes) {
      const F e = V::exp(V::sub(V::load(x + j), base));
      V::store(x + j, e);
      sum = V::add(sum, e);
    }
    sum_out = V::sum(sum);
  }

  // -- values
  // -------------------------------------------------------------------------------------------------------
  // block[i][d] = value i, dimension d, zero up to a whole vector.
  template <DType T>
  void convert_values(const std::byte* const* values, uint32_t n) {
    constexpr uint32_t kBytes = T == DType::kF32 ? 4 : 2;
    const uint32_t dims = queries.head_dim, padded = padded_dims();
    for (uint32_t i = 0; i < n; ++i) {
      const std::byte* from = values[i];
      float* to = block + i * padded;
      uint32_t d = 0;
      for (; d + kLanes <= dims; d += kLanes)
        V::store(to + d, V::template load_row<T>(from + d * kBytes));
      if constexpr (kLanes > 8)
        if (d < dims) V::store(to + d, V::template load_row_part<T>(from + d * kBytes, 8));
    }
  }
  uint32_t padded_dims() const { return (queries.head_dim + kLanes - 1) / kLanes * kLanes; }

  // acc of queries [first, last) with rows [begin, rows.rows) added.
  void add_values(uint32_t begin, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t s = 0; s < rows.span_count; ++s) {
      const RowSpan& span = rows.spans[s];
      if (span.end <= begin) continue;
      for (uint32_t row = span.begin > begin ? span.begin : begin; row < span.end;
           row += kValueBlock) {
        const uint32_t n = span.end - row < kValueBlock ? span.end - row : kValueBlock;
        if (span.dtype == DType::kF16) convert_values<DType::kF16>(rows.v + row, n);
        if (span.dtype == DType::kBF16) convert_values<DType::kBF16>(rows.v + row, n);
        if (span.dtype == DType::kF32) convert_values<DType::kF32>(rows.v + row, n);
        add_block(row, n, first, last, acc);
      }
    }
  }
  uint32_t seen_of(uint32_t query, uint32_t row, uint32_t n) const {
    if (seen[query] <= row) return 0;
    return seen[query] - row < n ? seen[query] - row : n;
  }
  // Rows that all queries of a register tile see together, the others one query at a time: a row
  // that a query does not see must not be added as zero, it may hold anything.
  void add_block(uint32_t row, uint32_t n, uint32_t first, uint32_t last, float* acc) {
    for (uint32_t i = first; i < last;) {
      const uint32_t m = last - i < V::kTile ? last - i : V::kTile;
      uint32_t common = n;
      for (uint32_t j = i; j < i + m; ++j) {
        const uint32_t own = seen_of(j, row, n);
        if (own < common) common = own;
      }
      if (common > 0) add_rows(row, 0, common, i, m, acc);
      for (uint32_t j = i; j < i + m; ++j) {
        const uint32_t own = seen_of(j, row, n);
        if (own > common) add_rows(row, common, own, j, 1, acc);
      }
      i += m;
    }
  }
  // Rows [from, to) of the block that begins at `row`.
  void add_rows(uint32_t row, uint32_t from, uint32_t to, uint32_t query, uint32_t m, float* acc) {
    const uint32_t dims = queries.head_dim, padded = padded_dims();
    for (uint32_t j = 0; j < m; ++j) p[j] = logits + (query + j) * kLogitStride + row + from;
    for (uint32_t d = 0; d < dims;) {
      const uint32_t r = vectors(m, (dims - d + kLanes - 1) / kLanes);
      run_tile(Add{p, block + from * padded + d, acc + static_cast<size_t>(query) * dims + d, dims,
                   to - from, padded, dims - d},
               m, r);
      d += r * kLanes;
    }
  }

  // -- one tile of queries
  // ------------------------------------------------------------------------------------------
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
    score(0, 0, count);
    for (uint32_t t = 0; lists && t < tokens; ++t) {
      gather_visible(view, queries, first + t, rows);
      score(rows.past, t * group, (t + 1) * group);
    }
    for (uint32_t i = 0; i < count; ++i) {
      soften(i, out.max[group_first + i], out.sum[group_first + i]);
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

// Scratch of 210 KiB on the stack, of which decode touches a tenth: no allocation, nothing kept
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

// e^x of one number, by the same steps as everywhere.
template <class V>
float exp_one(float x) {
  float lanes[V::kLanes];
  V::store(lanes, V::exp(V::set(x)));
  return lanes[0];
}

template <class V>
void merge(Partial into, Partial next, uint32_t queries, uint32_t head_dim) {
  constexpr float kNone = -__builtin_inff();
  for (uint32_t i = 0; i < queries; ++i) {
    if (next.max[i] == kNone) continue;
    const bool first = into.max[i] == kNone;
    const float max = into.max[i] > next.max[i] ? into.max[i] : next.max[i];
    const float old_part = first ? 0 : exp_one<V>(into.max[i] - max);
    const float new_part = exp_one<V>(next.max[i] - max);
    into.max[i] = max;
    into.sum[i] = (first ? 0 : into.sum[i] * old_part) + next.sum[i] * new_part;
    float* acc = into.acc + static_cast<size_t>(i) * head_dim;
    const float* add = next.acc + static_cast<size_t>(i) * head_dim;
    const typename V::F old_weight = V::set(old_part), new_weight = V::set(new_part);
    uint32_t d = 0;
    for (; d + V::kLanes <= head_dim; d += V::kLanes) {
      const auto old = first ? V::zero() : V::mul(V::load(acc + d), old_weight);
      V::store(acc + d, V::fma(V::load(add + d), new_weight, old));
    }
    if (d == head_dim) continue;
    const int tail = static_cast<int>(head_dim - d);
    const auto old = first ? V::zero() : V::mul(V::load_part(acc + d, tail), old_weight);
    V::store_part(acc + d, V::fma(V::load_part(add + d, tail), new_weight, old), tail);
  }
}

template <class V>
void finish(Partial state, const View& view, const Queries& queries, float* out,
            size_t out_stride) {
  const uint32_t dims = queries.head_dim;
  for (uint32_t t = 0; t < queries.tokens; ++t)
    for (uint32_t g = 0; g < queries.group; ++g) {
      const size_t i = static_cast<size_t>(t) * queries.group + g;
      const float* acc = state.acc + i * dims;
      float* to = out + t * out_stride + static_cast<size_t>(g) * dims;
      // No row at all gives zeros. One division per query: within an ulp of dividing each.
      const float inverse = state.sum[i] == 0 ? 0 : 1 / state.sum[i];
      const float mass = view.rest != nullptr ? view.rest_mass[i] : 0;
      for (uint32_t d = 0; d < dims; ++d) to[d] = acc[d] * inverse * (1 - mass);
      if (view.rest == nullptr) continue;
      for (uint32_t d = 0; d < dims; ++d) to[d] += mass * view.rest[d];
    }
}

}  // namespace
}  // namespace kvick::kernels
