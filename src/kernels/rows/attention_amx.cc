// Attention of prompts on AMX tiles (docs/adr/0022-attention-of-prompts.md).
//
// Tiles multiply bfloat16, which has 8 bits of significand. So a number is a sum of two: hi is the
// nearest bfloat16, lo the rest, and a product is hi lo + hi hi + lo hi. float16 has 11 bits, so
// such keys and values are split exactly; queries keep 16 bits. Probabilities are rounded to 8
// bits, then divided by the sum of the rounded ones. That changes weights by up to a relative 2^-8,
// in either direction, and loses no bit where all values agree.
//
// The operations, which alone determine the bits of a query's result:
//
//   score[j] = over steps of 32 dimensions: q_hi k_lo, then q_hi k_hi, then q_lo k_hi
//   logit[j] = softcap(score[j]) + bias[j]         queries were scaled before
//   sum      = rows l, l + 32, ... in order in lane l, then the lanes as a fixed tree
//   acc[d]   = over steps of 32 rows: p v_lo, then p v_hi
//
// The rows of a left tile do not affect each other. A row that a query does not see has probability
// 0, and the values of rows that no query sees are zero. Steps of rows that no query of a pass
// sees, before its windows or behind its tokens, are left out: they would add zeros.
//
// Bounds and measurements for 128 queries and 256 rows of 64 dimensions: 1,280 products of 16 x 16
// x 32, of 16 cycles or 5.2 ns each, but 6.2 to 8 ns if the numbers are not all zero, because tiles
// run hot. The same products of float32 take 131,000 cycles. Softmax: 2,048 vectors of about 20
// operations, two at a time.

#include <cmath>
#include <cstring>
#include <immintrin.h>

#include "kernels/attention/attention_rows.h"
#include "kernels/formats/cache_row.h"
#include "kernels/isa/target.h"
#include "kernels/table/rows.h"

#if !defined(__clang__)
// g++ 12 warns of undefined vectors inside its own intrinsics (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

KVICK_TARGET_AMX_BEGIN
#include "kernels/attention/attention_softmax.h"
#include "kernels/isa/amx_tiles.h"
#include "kernels/isa/vec_avx512.h"

namespace kvick::kernels {
namespace {

using V = VecAvx512;

constexpr uint32_t kSide = 16;                     // rows of a tile
constexpr uint32_t kDepth = 32;                    // numbers per row
constexpr size_t kLineBytes = 64;                  // bytes per row
constexpr size_t kTileBytes = kSide * kLineBytes;  // 1 KiB
constexpr uint32_t kQueries = 2 * kSide;           // queries of one pass
// Floats of a row of the left operand: scores, or per step of 32 numbers a line of hi and one of
// lo, which take the same space. Probabilities overwrite their scores, because both together exceed
// the first-level cache. The last kSide floats let rows begin in different cache sets.
constexpr uint32_t kRowFloats = kChunkRows + kSide;
constexpr size_t kRowBytes = kRowFloats * sizeof(float);

// The left operand of products: rows of pairs of lines, hi and lo.
struct Lines {
  const std::byte* at;
  size_t row;  // bytes from one row to the next
};

constexpr uint32_t steps_of(uint32_t n) { return (n + kDepth - 1) / kDepth; }
constexpr uint32_t tiles_of(uint32_t n) { return (n + kSide - 1) / kSide; }

// The right operand of products, as pairs of tiles, hi and lo.
struct Panels {
  const std::byte* at;
  size_t step;  // bytes from one step of 32 rows to the next
  size_t tile;  // bytes from 16 columns to the next
};

struct alignas(64) Scratch {
  std::byte keys[size_t{kChunkRows} * kMaxHeadDim * 4];    // [16 keys][steps of dims]
  std::byte values[size_t{kChunkRows} * kMaxHeadDim * 4];  // [steps of keys][16 dims]
  std::byte queries[kQueries * (kMaxHeadDim + kSide) * sizeof(float)];
  float scores[kQueries * kRowFloats];
  float out[kQueries * kDepth];
};

// -- splitting numbers ----------------------------------------------------------------------------

// Returns bits whose upper half is the nearest bfloat16.
KVICK_INLINE __m512i rounded(__m512 x) {
  return _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
}
KVICK_INLINE __m512 upper_half(__m512i x) {
  return _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(-0x10000)));
}
// Returns the upper halves as pairs: lane i of a, then of b.
KVICK_INLINE __m512i pair_upper(__m512i a, __m512i b) {
  constexpr int kChoose = 0xf8;  // first | (second & third)
  return _mm512_ternarylogic_epi32(_mm512_srli_epi32(a, 16), b, _mm512_set1_epi32(-0x10000),
                                   kChoose);
}

struct Split {
  __m512i hi, lo;  // pairs
};

// hi is rounded to nearest, lo towards zero. lo has either sign, so this adds no bias.
KVICK_INLINE Split split(__m512 a, __m512 b) {
  const __m512i up_a = rounded(a), up_b = rounded(b);
  return {pair_upper(up_a, up_b),
          pair_upper(_mm512_castps_si512(_mm512_sub_ps(a, upper_half(up_a))),
                     _mm512_castps_si512(_mm512_sub_ps(b, upper_half(up_b))))};
}

KVICK_INLINE void store_split(const Split& x, std::byte* hi, size_t to_lo) {
  _mm512_store_si512(hi, x.hi);
  _mm512_store_si512(hi + to_lo, x.lo);
}

template <DType T>
inline constexpr uint32_t kBytes = T == DType::kF32 ? 4 : 2;

// Returns elements d to d + 15 of a row, zeros past its end.
template <DType T>
KVICK_INLINE __m512 load_part(const std::byte* row, uint32_t d, uint32_t dims) {
  if (d + kSide <= dims) return V::load_row<T>(row + size_t{d} * kBytes<T>);
  if (d >= dims) return V::zero();
  return V::load_row_part<T>(row + size_t{d} * kBytes<T>, static_cast<int>(dims - d));
}

// Whether no element is infinite, NaN, or so large that its bfloat16 would be infinite.
template <DType T>
bool all_finite(const std::byte* row, uint32_t dims) {
  const __m512 most = V::set(0x1.fep127F);
  __mmask16 bad = 0;
  for (uint32_t d = 0; d < dims; d += kSide)
    bad |= _mm512_cmp_ps_mask(_mm512_abs_ps(load_part<T>(row, d, dims)), most, _CMP_NLE_UQ);
  return bad == 0;
}

// -- right operands -------------------------------------------------------------------------------

alignas(64) constexpr std::byte kZeros[size_t{kMaxHeadDim} * 4] = {};

// Packs keys into tiles [16 pairs of dimensions d, d + 16][16 keys]. places: whole steps.
template <DType T>
void pack_keys(const std::byte* const* keys, SeenRows places, uint32_t dims, std::byte* to) {
  alignas(64) std::byte lines[2][kTileBytes];
  const std::byte* from[2][kSide];
  for (uint32_t i = 0; i < kSide; ++i)
    for (int part = 0; part < 2; ++part) from[part][i] = lines[part] + i * kLineBytes;
  to += size_t{places.begin / kSide} * steps_of(dims) * 2 * kTileBytes;
  for (uint32_t key = places.begin; key < places.end; key += kSide)
    for (uint32_t d = 0; d < dims; d += kDepth, to += 2 * kTileBytes) {
      for (uint32_t i = 0; i < kSide; ++i)
        store_split(split(load_part<T>(keys[key + i], d, dims),
                          load_part<T>(keys[key + i], d + kSide, dims)),
                    lines[0] + i * kLineBytes, kTileBytes);
      for (size_t part = 0; part < 2; ++part)
        for (size_t pair = 0; pair < kSide; pair += 4)
          V::transpose<1>(from[part], pair * 4,
                          reinterpret_cast<float*>(to + part * kTileBytes + pair * kLineBytes),
                          kSide);
    }
}

// Packs values into tiles [16 pairs of rows i, i + 16][16 dimensions].
template <DType T>
void pack_values(const std::byte* const* values, SeenRows places, uint32_t dims, std::byte* to) {
  to += size_t{places.begin / kDepth} * tiles_of(dims) * 2 * kTileBytes;
  for (uint32_t row = places.begin; row < places.end; row += kDepth)
    for (uint32_t d = 0; d < dims; d += kSide, to += 2 * kTileBytes)
      for (uint32_t i = 0; i < kSide; ++i)
        store_split(split(load_part<T>(values[row + i], d, dims),
                          load_part<T>(values[row + kSide + i], d, dims)),
                    to + i * kLineBytes, kTileBytes);
}

// -- products -------------------------------------------------------------------------------------

template <int kM, int kN, int kA, int kB>
KVICK_INLINE void dot_all() {
  dot_tiles_bf16<0, kA, kB>();
  if constexpr (kN == 2) dot_tiles_bf16<1, kA, kB + 1>();
  if constexpr (kM == 2) dot_tiles_bf16<2, kA + 1, kB>();
  if constexpr (kM == 2 && kN == 2) dot_tiles_bf16<3, kA + 1, kB + 1>();
}
template <int kTile, int kCount>
KVICK_INLINE void load_tiles(const std::byte* at, size_t line, size_t tile) {
  load_tile<kTile>(at, line);
  if constexpr (kCount == 2) load_tile<kTile + 1>(at + tile, line);
}

// out[16 kM][16 kN] = left * right, with or without the left operand's lo. Tiles 0 to 3: sums; 4,
// 5: left; 6, 7: right.
template <int kM, int kN, bool kLeftLo>
void multiply(Lines left, Panels right, uint32_t steps, float* out, size_t stride) {
  zero_tile<0>();
  zero_tile<1>();
  zero_tile<2>();
  zero_tile<3>();
  for (uint32_t s = 0; s < steps; ++s, left.at += 2 * kLineBytes, right.at += right.step) {
    load_tiles<4, kM>(left.at, left.row, kSide * left.row);
    load_tiles<6, kN>(right.at + kTileBytes, kLineBytes, right.tile);
    dot_all<kM, kN, 4, 6>();
    load_tiles<6, kN>(right.at, kLineBytes, right.tile);
    dot_all<kM, kN, 4, 6>();
    if constexpr (!kLeftLo) continue;
    load_tiles<4, kM>(left.at + kLineBytes, left.row, kSide * left.row);
    dot_all<kM, kN, 4, 6>();
  }
  const size_t bytes = stride * sizeof(float);
  store_tile<0>(out, bytes);
  if constexpr (kN == 2) store_tile<1>(out + kSide, bytes);
  if constexpr (kM == 2) store_tile<2>(out + kSide * stride, bytes);
  if constexpr (kM == 2 && kN == 2) store_tile<3>(out + kSide * stride + kSide, bytes);
}

void configure_products() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.set(i, kSide, kLineBytes);
  configure_tiles(config);
}

// Returns which of places j to j + 15 are seen, as a mask.
KVICK_INLINE uint32_t places_within(SeenRows seen, uint32_t j) {
  const auto below = [j](uint32_t place) -> uint32_t {
    return place <= j ? 0 : place >= j + kSide ? 0xffff : (1U << (place - j)) - 1;
  };
  return below(seen.end) & ~below(seen.begin);
}

// -- softmax --------------------------------------------------------------------------------------

// Returns e^x for x <= 0, as VecAvx512::exp but with one step of reduction and a polynomial of
// degree 5. Its relative error of 1e-7, for which it was fitted, is below that of 16 bits.
KVICK_INLINE __m512 exp_below(__m512 x) {
  const __m512 magic = V::set(0x1.8p23F);
  const __m512 shifted = V::fma(x, V::set(0x1.715476p+0F), magic);
  const __m512 r = V::nfma(V::sub(shifted, magic), V::set(0x1.62e430p-1F), x);
  __m512 p = V::fma(V::set(0x1.106250p-7F), r, V::set(0x1.572a64p-5F));
  p = V::fma(p, r, V::set(0x1.5557b0p-3F));
  p = V::fma(p, r, V::set(0x1.fffdfcp-2F));
  p = V::fma(V::fma(p, r, V::set(1)), r, V::set(1));
  const __mmask16 keep = _mm512_cmp_ps_mask(x, V::set(-87.336F), _CMP_NLT_UQ);
  return _mm512_castsi512_ps(_mm512_maskz_add_epi32(
      keep, _mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

// Replaces one query's scores of rows [part.begin, part.end), some of which it sees, by
// probabilities as a left operand. Also writes these to probs unless that is null.
void soften(float* x, SeenRows seen, SeenRows part, float* probs, float& max_out, float& sum_out) {
  const __m512 none = V::set(-__builtin_inff());
  for (uint32_t j = part.begin; j < part.end; j += kSide)
    if (j < seen.begin || j + kSide > seen.end)
      _mm512_mask_storeu_ps(x + j, static_cast<__mmask16>(~places_within(seen, j)), none);
  __m512 high[2] = {none, none};
  for (uint32_t j = part.begin; j < part.end; j += kDepth) {
    high[0] = V::max(V::load(x + j), high[0]);
    high[1] = V::max(V::load(x + j + kSide), high[1]);
  }
  max_out = V::largest(V::max(high[0], high[1]));
  // If there is no row, or all logits are -inf, max is -inf, and -inf minus -inf would be NaN.
  const __m512 base = V::set(max_out == -__builtin_inff() ? 0 : max_out);
  __m512 sum[2] = {V::zero(), V::zero()};
  for (uint32_t j = part.begin; j < part.end; j += kDepth) {
    const __m512i a = rounded(exp_below(V::sub(V::load(x + j), base)));
    const __m512i b = rounded(exp_below(V::sub(V::load(x + j + kSide), base)));
    const __m512 p_a = upper_half(a), p_b = upper_half(b);
    sum[0] = V::add(sum[0], p_a);
    sum[1] = V::add(sum[1], p_b);
    _mm512_store_si512(x + j, pair_upper(a, b));
    if (probs == nullptr) continue;
    V::store(probs + j, p_a);
    V::store(probs + j + kSide, p_b);
  }
  sum_out = V::sum(V::add(sum[0], sum[1]));
  if (sum_out != sum_out) max_out = sum_out;  // as in attention_softmax.h
}

// -- one chunk ------------------------------------------------------------------------------------

// Returns the end of the rows of all spans but the last.
uint32_t end_of_others(const ChunkRows& rows) {
  return rows.span_count > 1 ? rows.spans[rows.span_count - 2].end : 0;
}

struct PromptChunk {
  const View& view;
  const Queries& queries;
  ChunkRows& rows;
  Scratch& scratch;
  SeenRows part = {0, 0};  // places that are in tiles, in whole steps
  bool spoiled[kChunkRows] = {};
  bool any_spoiled = false;
  bool biased = false;

  // The last span: every query that sees any row of the chunk sees one of its rows.
  const RowSpan& span() const { return rows.spans[rows.span_count - 1]; }

  // Replaces rows around the span, and rows that are not finite, by zeros.
  template <DType T>
  void tidy(const std::byte** at, uint32_t dims) {
    for (uint32_t i = span().begin; i < span().end; ++i) {
      if (all_finite<T>(at[i], dims)) continue;
      at[i] = kZeros;
      any_spoiled = spoiled[i] = true;
    }
    for (uint32_t i = part.begin; i < span().begin; ++i) at[i] = kZeros;
    for (uint32_t i = span().end; i < part.end; ++i) at[i] = kZeros;
  }
  template <DType T>
  void pack_keys_of() {
    tidy<T>(rows.k, queries.k_dim);
    pack_keys<T>(rows.k, part, queries.k_dim, scratch.keys);
  }
  template <DType T>
  void pack_values_of() {
    tidy<T>(rows.v, queries.v_dim);
    pack_values<T>(rows.v, part, queries.v_dim, scratch.values);
  }
  void pack() {
    if (rows.span_count == 0) return;
    part = {span().begin / kDepth * kDepth, steps_of(span().end) * kDepth};
    for (uint32_t i = span().begin; i < span().end; ++i) biased = biased || rows.bias[i] != 0;
    if (span().k_type == DType::kF16) pack_keys_of<DType::kF16>();
    if (span().k_type == DType::kBF16) pack_keys_of<DType::kBF16>();
    if (span().k_type == DType::kF32) pack_keys_of<DType::kF32>();
    if (span().v_type == DType::kF16) pack_values_of<DType::kF16>();
    if (span().v_type == DType::kBF16) pack_values_of<DType::kBF16>();
    if (span().v_type == DType::kF32) pack_values_of<DType::kF32>();
  }
  // seen_by() returns the places of the span that token t sees, needs_others() whether it sees rows
  // that are not in tiles, or are zeros there.
  SeenRows seen_by(uint32_t t) const {
    SeenRows seen = rows_seen(view, queries, rows, t);
    if (rows.span_count == 0) return {0, 0};
    seen.begin = larger(seen.begin, span().begin);
    seen.end = smaller(seen.end, span().end);
    return seen.begin < seen.end ? seen : SeenRows{0, 0};
  }
  bool needs_others(uint32_t t) const {
    const SeenRows seen = rows_seen(view, queries, rows, t);
    if (seen.begin == seen.end || rows.span_count == 0) return false;
    if (seen.begin < end_of_others(rows)) return true;
    for (uint32_t i = seen.begin; any_spoiled && i < seen.end; ++i)
      if (spoiled[i]) return true;
    return false;
  }

  // Packs queries [first, first + n) of [tokens][group]; the lines behind them are zeros.
  void pack_queries(uint32_t first, uint32_t n) {
    const uint32_t dims = queries.k_dim;
    const __m512 scale = V::set(queries.scale);
    for (uint32_t i = 0; i < kQueries; ++i) {
      const uint32_t token = (first + i) / queries.group, head = (first + i) % queries.group;
      const auto* q = reinterpret_cast<const std::byte*>(
          queries.q + size_t{token} * queries.q_stride + size_t{head} * dims);
      if (i >= n) q = kZeros;
      std::byte* to = scratch.queries + i * query_bytes();
      for (uint32_t d = 0; d < dims; d += kDepth, to += 2 * kLineBytes)
        store_split(split(V::mul(load_part<DType::kF32>(q, d, dims), scale),
                          V::mul(load_part<DType::kF32>(q, d + kSide, dims), scale)),
                    to, kLineBytes);
    }
  }

  size_t query_bytes() const {
    return size_t{steps_of(queries.k_dim)} * 2 * kLineBytes + kSide * sizeof(float);
  }

  template <int kM>
  void score(SeenRows seen) {
    const uint32_t steps = steps_of(queries.k_dim);
    const size_t tile = steps * 2 * kTileBytes;
    for (uint32_t row = seen.begin; row < seen.end; row += kDepth)
      multiply<kM, 2, true>({scratch.queries, query_bytes()},
                            {scratch.keys + row / kSide * tile, 2 * kTileBytes, tile}, steps,
                            scratch.scores + row, kRowFloats);
  }
  template <int kM>
  void add_values(SeenRows seen, uint32_t n, float* acc) {
    const uint32_t dims = queries.v_dim, tiles = tiles_of(dims);
    const uint32_t before = seen.begin / kDepth, steps = steps_of(seen.end) - before;
    const Lines probs = {reinterpret_cast<const std::byte*>(scratch.scores + seen.begin),
                         kRowBytes};
    const std::byte* const first = scratch.values + size_t{before} * tiles * 2 * kTileBytes;
    for (uint32_t d = 0; d < dims; d += kDepth) {
      const Panels values = {first + d / kSide * 2 * kTileBytes, tiles * 2 * kTileBytes,
                             2 * kTileBytes};
      if (d + kSide < dims)
        multiply<kM, 2, false>(probs, values, steps, scratch.out, kDepth);
      else
        multiply<kM, 1, false>(probs, values, steps, scratch.out, kDepth);
      for (uint32_t i = 0; i < n; ++i)
        for (uint32_t e = d; e < dims && e < d + kDepth; e += kSide) {
          const __m512 x = V::load(scratch.out + i * kDepth + (e - d));
          V::store_part(acc + size_t{i} * dims + e, x,
                        static_cast<int>(dims - e < kSide ? dims - e : kSide));
        }
    }
  }

  // Computes queries [first, first + n), at most 16 kM.
  template <int kM>
  void attend(uint32_t first, uint32_t n, Partial out, float* probs) {
    SeenRows seen[kQueries], any = {kChunkRows, 0};
    for (uint32_t i = 0; i < n; ++i) {
      seen[i] = seen_by((first + i) / queries.group);
      if (seen[i].begin == seen[i].end) continue;
      any = {smaller(any.begin, seen[i].begin), larger(any.end, seen[i].end)};
    }
    any = any.end == 0 ? SeenRows{0, 0}
                       : SeenRows{any.begin / kDepth * kDepth, steps_of(any.end) * kDepth};
    pack_queries(first, n);
    score<kM>(any);
    for (uint32_t i = 0; i < n; ++i) {
      float* x = scratch.scores + i * kRowFloats;
      float* const own = probs != nullptr ? probs + size_t{first + i} * kChunkRows : nullptr;
      add_bias(x, any);
      soften(x, seen[i], any, own, out.max[first + i], out.sum[first + i]);
      for (uint32_t j = 0; own != nullptr && j < kChunkRows; j += kSide)
        if (j < any.begin || j >= any.end) V::store(own + j, V::zero());
    }
    add_values<kM>(any, n, out.acc + size_t{first} * queries.v_dim);
  }
  void add_bias(float* x, SeenRows places) {
    if (queries.softcap != 0)
      return cap_logits<V>(x + places.begin, rows.bias + places.begin, places.end - places.begin,
                           queries.softcap);
    for (uint32_t j = places.begin; biased && j < places.end; j += kSide)
      V::store(x + j, V::add(V::load(x + j), V::load(rows.bias + j)));
  }

  void run(Partial out, float* probs) {
    pack();
    configure_products();
    const uint32_t count = queries.tokens * queries.group;
    for (uint32_t first = 0; first < count; first += kQueries) {
      const uint32_t n = count - first < kQueries ? count - first : kQueries;
      if (n > kSide)
        attend<2>(first, n, out, probs);
      else
        attend<1>(first, n, out, probs);
    }
    release_tiles();
  }
};

}  // namespace
}  // namespace kvick::kernels

KVICK_TARGET_END

namespace kvick::kernels {
namespace {

// Whether tiles take all rows that the last token sees: they are of one type, without queries of
// their own. If not, no token's rows are all in tiles, because other tokens see these or older
// rows.
bool takes(const View& view, const Queries& queries, const ChunkRows& rows) {
  if (queries.visible != nullptr || queries.slopes != nullptr) return false;
  if (rows.span_count == 0) return true;
  const RowSpan& span = rows.spans[rows.span_count - 1];
  if (span.q != nullptr || !has_prompt_tiles(span.k_type, span.v_type)) return false;
  const SeenRows seen = rows_seen(view, queries, rows, queries.tokens - 1);
  return seen.begin == seen.end || seen.begin >= end_of_others(rows);
}

// Computes token t alone, without tiles. Its chunk 0 may be a later one than that of all queries.
void attend_without_tiles(const View& view, const Queries& queries, uint32_t chunk, uint32_t t,
                          Partial out, float* probs) {
  Queries one = queries;
  one.q += size_t{t} * queries.q_stride;
  one.first += t;
  one.tokens = 1;
  const uint32_t later = (first_place(one) - first_place(queries)) / kChunkRows;
  const size_t i = size_t{t} * queries.group;
  attend_chunk_vnni(view, one, chunk - later,
                    {out.max + i, out.sum + i, out.acc + i * queries.v_dim},
                    probs != nullptr ? probs + i * kChunkRows : nullptr);
}

// Computes chunks that tiles do not take without them. A query's own rows decide that: without a
// window, all queries see all committed rows of the chunk; with one, see takes() and
// needs_others().
void attend_prompt(const View& view, const Queries& queries, uint32_t chunk, Partial out,
                   float* probs) {
  check_attention(view, queries);
  ChunkRows rows;
  gather_rows(view, queries, chunk, rows);
  if (!takes(view, queries, rows)) return attend_chunk_vnni(view, queries, chunk, out, probs);
  Scratch scratch;
  PromptChunk state{view, queries, rows, scratch};
  state.run(out, probs);
  // In a tile, a row that is not finite would spoil queries that do not see it. So it is zero
  // there, and tokens that see it are computed again without tiles.
  for (uint32_t t = 0; t < queries.tokens; ++t)
    if (state.needs_others(t)) attend_without_tiles(view, queries, chunk, t, out, probs);
}

}  // namespace

void fill_rows_amx(Table& table) {
  fill_rows_vnni(table);
  table.attend_prompt = attend_prompt;
}

}  // namespace kvick::kernels
