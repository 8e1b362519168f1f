#pragma once
// Logits from quantised keys (kQ8, kQ4) by integer products, 16 rows per vector. Included inside a
// target region; used where V::kCodeDots.
//
// A query is rounded to 16-bit integers, with one scale per 32 dimensions. With 8 bits its rounding
// error would be as large as the keys', and the two products of 16 bits cost less than reading the
// keys. V::split_query writes the integers in two parts, in the form that the instruction set
// multiplies. Integer sums are exact, so the bits do not depend on the instruction set. Per group g
// of 32 dimensions:
//
//   dot[g]  = sum of (code - zero) * the query's integer
//   logit   = fma(sum over g of dot[g] * key scale[g] * query scale[g], scale, bias)
//
// where the sum over g is a chain of fma in order. Unlike with floats (attention_dots.h),
// multiplying keys as stored, with dimensions in lanes, gained nothing: adding up integer lanes for
// each group of 32 takes as long as transposing codes, of which a lane holds four (Zen 4, 1 to 8
// queries: 0.9 to 1.1 times the time).

namespace kvick::kernels {
namespace {

template <class V>
struct CodeQueries {
  static constexpr uint32_t kGroups = kMaxHeadDim / kRowGroup;

  alignas(64) int8_t first[kTileQueries * kMaxHeadDim];
  alignas(64) int8_t second[kTileQueries * kMaxHeadDim];
  float scale[kTileQueries * kGroups];
  int32_t start[kTileQueries * kGroups];  // -zero * the sum of the query's integers

  template <DType T>
  void set(uint32_t i, const float* q, uint32_t dims) {
    constexpr int32_t kZero = T == DType::kQ8 ? 128 : code_range(T).middle;
    for (uint32_t g = 0; g < dims / kRowGroup; ++g) {
      const uint32_t at = i * kMaxHeadDim + g * kRowGroup, group = i * kGroups + g;
      start[group] =
          -kZero * V::split_query(q + g * kRowGroup, first + at, second + at, scale[group]);
    }
  }
};

// Keys of one block. codes: four bytes each, [dims/4][kStride], or [dims/8][kStride] for kQ4.
template <class V>
struct CodeKeys {
  static constexpr uint32_t kStride = 4 * V::kLanes;
  const float* codes;
  const float* scales;  // [dims/32][kStride]
  uint32_t groups;
};

// Computes the logits of M queries and R vectors of rows, into out + m * stride + r * kLanes.
template <class V, DType T>
struct CodeScore {
  using F = typename V::F;
  using I = typename V::I;
  static constexpr int kTile = 4, kVectors = 2;

  const CodeQueries<V>& queries;
  CodeKeys<V> keys;
  uint32_t query, row;  // first of the tile; row: index within the block
  float scale;
  const float* bias;
  float* out;
  size_t stride;

  template <int M, int R>
  void run() const {
    constexpr uint32_t kStride = CodeKeys<V>::kStride;
    F acc[M][R];
    for (int m = 0; m < M; ++m)
      for (int r = 0; r < R; ++r) acc[m][r] = V::zero();
    for (uint32_t g = 0; g < keys.groups; ++g) {
      I first[M][R], second[M][R];
      KVICK_UNROLL for (int m = 0; m < M; ++m) for (int r = 0; r < R; ++r) {
        first[m][r] = V::zeros();
        second[m][r] = V::set_int(queries.start[(query + m) * CodeQueries<V>::kGroups + g]);
      }
      const size_t at = query * kMaxHeadDim + g * kRowGroup;
      const int8_t* const q_first = queries.first + at;
      const int8_t* const q_second = queries.second + at;
      KVICK_UNROLL for (uint32_t j = 0; j < 8; ++j) {
        const uint32_t line = T == DType::kQ8 ? 8 * g + j : 4 * g + j % 4;
        I codes[R];
        KVICK_UNROLL for (int r = 0; r < R; ++r) codes[r] = V::template unsigned_codes<T>(
            keys.codes + line * kStride + row + r * V::kLanes, j >= 4);
        KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r) {
          first[m][r] = V::dot_first(first[m][r], codes[r], q_first + m * kMaxHeadDim + 4 * j);
          second[m][r] = V::dot_second(second[m][r], codes[r], q_second + m * kMaxHeadDim + 4 * j);
        }
      }
      KVICK_UNROLL for (int m = 0; m < M; ++m) {
        const F query_scale = V::set(queries.scale[(query + m) * CodeQueries<V>::kGroups + g]);
        KVICK_UNROLL for (int r = 0; r < R; ++r) {
          const F key_scale = V::load(keys.scales + g * kStride + row + r * V::kLanes);
          const F dot = V::mul(V::joined(first[m][r], second[m][r]), key_scale);
          acc[m][r] = V::fma(dot, query_scale, acc[m][r]);
        }
      }
    }
    KVICK_UNROLL for (int m = 0; m < M; ++m) for (int r = 0; r < R; ++r)
        V::store(out + m * stride + r * V::kLanes,
                 V::fma(acc[m][r], V::set(scale), V::load(bias + r * V::kLanes)));
  }

  // Runs the tile with m and r as compile-time constants.
  template <int M = kTile>
  void run(uint32_t m, uint32_t r) const {
    if (m == M) return r == 2 ? run<M, 2>() : run<M, 1>();
    if constexpr (M > 1) run<M - 1>(m, r);
  }
};

}  // namespace
}  // namespace kvick::kernels
