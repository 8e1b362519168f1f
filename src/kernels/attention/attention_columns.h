#pragma once
// Dot products of many queries with transposed keys: see attention_dots.h. Included inside a target
// region.

namespace kvick::kernels {
namespace {

// Computes the logits of M queries and R vectors of transposed keys: see Attend::run_tile.
template <class V>
struct ColumnDots {
  using F = typename V::F;
  static constexpr uint32_t kChains = V::kChains;
  // kTogether: chains that are summed at the same time, in registers. kTile: queries of a register
  // tile.
  static constexpr uint32_t kTogether = V::kAccumulators >= 16 && kChains > 1 ? 2 : 1;
  static constexpr uint32_t kTile = V::kTile / kTogether;

  const float* const* queries;  // from the tile's first query on
  uint32_t dims;
  const float* keys;  // [dims][stride], from the tile's first key on
  uint32_t key_stride;
  float scale;
  const float* bias;
  float* out;
  size_t stride;

  template <int M, int R>
  void run() const {
    const float* q[M];
    for (int m = 0; m < M; ++m) q[m] = queries[m];
    F acc[M][R], waiting[kDepth + 1][M][R];  // waiting: sums whose neighbour comes later
    uint32_t depth = 0;
    for (uint32_t turn = 0; turn < kTurns; ++turn) {
      add_chains<M, R>(q, turn * kTogether, acc);
      for (uint32_t ends = turn; (ends & 1) != 0; ends >>= 1) {
        --depth;
        KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r)
            acc[m][r] = V::add(acc[m][r], waiting[depth][m][r]);
      }
      if (turn + 1 == kTurns) break;
      KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r)
          waiting[depth][m][r] = acc[m][r];
      ++depth;
    }
    KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r)
        V::store(out + m * stride + r * V::kLanes,
                 V::fma(acc[m][r], V::set(scale), V::load(bias + r * V::kLanes)));
  }

 private:
  // Computes the sum of chain c, plus that of chain c + 1 if kTogether is 2.
  template <int M, int R>
  [[gnu::always_inline]] inline void add_chains(const float* const (&q)[M], size_t c,
                                                F (&sum)[M][R]) const {
    F acc[kTogether][M][R];
    for (uint32_t k = 0; k < kTogether; ++k)
      for (int m = 0; m < M; ++m)
        for (int r = 0; r < R; ++r) acc[k][m][r] = V::zero();
    for (size_t d = c; d < dims; d += kChains)
      KVICK_UNROLL for (uint32_t k = 0; k < kTogether; ++k) {
        const size_t at = d + k;
        F x[R];
        KVICK_UNROLL for (int r = 0; r < R; ++r) x[r] =
            V::load(keys + at * key_stride + r * V::kLanes);
        KVICK_UNROLL for (int m = 0; m < M; ++m) {
          const F y = V::set(q[m][at]);
          KVICK_UNROLL for (int r = 0; r < R; ++r) acc[k][m][r] = V::fma(x[r], y, acc[k][m][r]);
        }
      }
    KVICK_UNROLL for (int m = 0; m < M; ++m) KVICK_UNROLL for (int r = 0; r < R; ++r) sum[m][r] =
        kTogether == 2 ? V::add(acc[0][m][r], acc[kTogether - 1][m][r]) : acc[0][m][r];
  }

  static constexpr uint32_t kTurns = kChains / kTogether;
  static constexpr uint32_t kDepth = kTurns == 8 ? 3 : kTurns == 4 ? 2 : kTurns == 2 ? 1 : 0;
  static_assert(kTurns == 1U << kDepth);
};

}  // namespace
}  // namespace kvick::kernels
