#pragma once
// Dot products of queries with keys of floats. Included inside a target region.
//
// A dot product is summed in V::kChains chains, dimension d in chain d % kChains, in order. Then
// chains 0 and 1, 2 and 3, ... are added, then neighbouring sums, and so on. So a key and a query
// give the same bits in both of these ways:
//
//   KeyDots     few queries. The lanes of a vector are dimensions, so a key is loaded, converted
//               and multiplied as stored. The chains are lanes, which V::fold and V::fold_rest add
//               by joining two vectors at a time.
//   ColumnDots  many queries (attention_columns.h). Keys are converted and transposed once for all
//               of them; the lanes of a vector are keys, and the chains are computed one by one.
//
// Measured on Zen 4 (one core, rows in the second-level cache; docs/results/zen4.md):
//   - One chain, so that keys are transposed even for one query: decode takes 1.1 to 1.6 times the
//     time with float16 and AVX-512, 1.05 to 1.5 with AVX2; prompts the same within 3 %.
//   - Sixteen chains, a whole vector of one key: decode takes 0.84 to 1 of the time of eight, but
//     prompts 1.06 to 1.19, whether lanes are added up or chains wait in memory.
//   - One chain at a time instead of two, prompts with AVX-512: 1.12 times the time.
//   - Loops with 64 or 128 dimensions as a compile-time constant: no gain.

namespace kvick::kernels {
namespace {

// Costs for RowsAhead, in multiply-adds: loading and converting one element of a key, and adding up
// one lane of a dot product.
inline constexpr uint32_t kLoadWork = 2, kFoldWork = 2;

template <class V, DType T>
struct KeyDots {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes, kChains = V::kChains;
  static constexpr uint32_t kVectors = kLanes < 4 ? kLanes : 4;      // of keys in a register tile
  static constexpr uint32_t kTiles = kChains < 4 ? 1 : kChains / 4;  // tiles per kLanes keys
  static constexpr uint32_t kTile = V::kDotQueries;

  const float* const* queries;
  uint32_t dims;  // a multiple of 8, or of kRowGroup if keys are quantised
  float scale;    // of the logits
  RowsAhead& ahead;

  static uint32_t work(uint32_t keys, uint32_t queries, uint32_t dims) {
    return keys * (dims * (kLoadWork + queries) + kFoldWork * kLanes * queries);
  }

  // Sets out[m * stride + i] to the logit fma(dot, scale, bias[i]) of `count` queries m and n keys
  // i. Writes whole vectors, whose last lanes repeat the last key.
  void run(const std::byte* const* keys, uint32_t n, uint32_t count, const float* bias, float* out,
           size_t stride) const {
    RowBlocks<V>::for_vectors(
        keys, n, [&](const auto& from, uint32_t i) __attribute__((always_inline)) {
          for (uint32_t m = 0; m < count; m += kTile)
            run_tile<kTile>(from, m, count - m, bias + i, out + m * stride + i, stride);
        });
  }

 private:
  // Does the same for kLanes keys and up to M queries.
  template <uint32_t M, class Rows>
  void run_tile(const Rows& keys, uint32_t query, uint32_t count, const float* bias, float* out,
                size_t stride) const {
    if constexpr (M > 1)
      if (count < M) return run_tile<M - 1>(keys, query, count, bias, out, stride);
    F sums[M][kTiles];
    for (uint32_t i = 0; i < kTiles; ++i) {
      ahead.work(work(kLanes / kTiles, M, dims));
      F acc[M][kVectors];
      multiply<M>(keys, i * kVectors, queries + query, acc);
      KVICK_UNROLL for (uint32_t m = 0; m < M; ++m) sums[m][i] = V::fold(acc[m]);
    }
    KVICK_UNROLL for (uint32_t m = 0; m < M; ++m)
        V::store(out + m * stride, V::fma(V::fold_rest(sums[m]), V::set(scale), V::load(bias)));
  }

  // Keys of a register tile that are multiplied at a time by M queries.
  template <uint32_t M>
  static constexpr uint32_t kTogether = kVectors > V::kDotSums / M ? kVectors / 2 : kVectors;

  // Sets acc[m][j] to the chains of query m and key first + j.
  template <uint32_t M, class Rows>
  [[gnu::always_inline]] inline void multiply(const Rows& keys, uint32_t first,
                                              const float* const* all_queries,
                                              F (&acc)[M][kVectors]) const {
    for (auto& row : acc)
      for (F& sum : row) sum = V::zero();
    if constexpr (is_cache_code(T)) {
      KVICK_UNROLL for (uint32_t j = 0; j < kVectors; j += kTogether<M>)
          multiply_codes<M>(keys, first + j, all_queries, acc, j);
    } else {
      KVICK_UNROLL for (uint32_t j = 0; j < kVectors; j += kTogether<M>)
          multiply_rows<M>(keys, first + j, all_queries, acc, j);
    }
  }

  // Does the same for kTogether keys, with sums from acc[m][place] on. Where a vector holds two
  // keys (kChains < kLanes), its upper half is the key kLanes / 2 further on.
  template <uint32_t M, class Rows>
  [[gnu::always_inline]] inline void multiply_rows(const Rows& keys, uint32_t first,
                                                   const float* const* all_queries,
                                                   F (&acc)[M][kVectors], uint32_t place) const {
    constexpr uint32_t kKeys = kTogether<M>;
    const std::byte *from[kKeys], *also[kKeys];
    const float* q[M];
    for (uint32_t j = 0; j < kKeys; ++j) from[j] = keys[first + j];
    for (uint32_t j = 0; j < kKeys; ++j)
      also[j] = kChains == kLanes ? from[j] : keys[first + j + kLanes / 2];
    for (uint32_t m = 0; m < M; ++m) q[m] = all_queries[m];
    for (size_t d = 0; d < dims; d += kChains) {
      F x[M];
      KVICK_UNROLL for (uint32_t m = 0; m < M; ++m) x[m] = V::load_query(q[m] + d);
      KVICK_UNROLL for (uint32_t j = 0; j < kKeys; ++j) {
        const size_t at = d * kElementBytes<T>;
        const F key = V::template load_keys<T>(from[j] + at, also[j] + at);
        KVICK_UNROLL for (uint32_t m = 0; m < M; ++m) acc[m][place + j] =
            V::fma(key, x[m], acc[m][place + j]);
      }
    }
  }

  // Does the same for quantised keys, converted as in key_floats().
  template <uint32_t M, class Rows>
  [[gnu::always_inline]] inline void multiply_codes(const Rows& keys, uint32_t first,
                                                    const float* const* q, F (&acc)[M][kVectors],
                                                    uint32_t place) const {
    static_assert(kChains == kLanes, "a vector of codes is of one key");
    constexpr uint32_t kKeys = kTogether<M>;
    const std::byte* from[kKeys];
    for (uint32_t j = 0; j < kKeys; ++j) from[j] = keys[first + j];
    const size_t behind = code_bytes(T, dims);
    for (size_t g = 0; g < dims / kRowGroup; ++g) {
      F of_group[kKeys];
      KVICK_UNROLL for (uint32_t j = 0; j < kKeys; ++j) of_group[j] =
          V::set(V::half(from[j] + behind + g * 2));
      KVICK_UNROLL for (uint32_t d = 0; d < kRowGroup; d += kLanes) {
        F x[M];
        KVICK_UNROLL for (uint32_t m = 0; m < M; ++m) x[m] =
            V::load_query(q[m] + g * kRowGroup + d);
        KVICK_UNROLL for (uint32_t j = 0; j < kKeys; ++j) {
          const F key = V::mul(V::template load_codes<T>(from[j] + g * code_bytes(T, kRowGroup), d),
                               of_group[j]);
          KVICK_UNROLL for (uint32_t m = 0; m < M; ++m) acc[m][place + j] =
              V::fma(key, x[m], acc[m][place + j]);
        }
      }
    }
  }
};

}  // namespace
}  // namespace kvick::kernels
