#pragma once
// Internal to kernels/: three panels of Q8_0 times 8 to 32 tokens. Included by functions_avx512.h,
// after matmul_avx512_impl.h.
//
// With VNNI and one panel every vpdpbusd loads its own broadcast: 10 loads and 10 operations of the
// two arithmetic ports per token and group, so two loads per cycle are as much a bound as two
// operations. Here a broadcast serves three panels and a line of codes four tokens: 56 loads, 96
// vpdpbusd and 24 additions. One 3.0 GHz Emerald Rapids core with 760 GOP/s of vpdpbusd and all
// operands in L1 reaches 577 of the 608 GOP/s that 8 in 10 operations allow (also with two panels
// and six tokens or four panels and three; 520 to 540 with fewer sums). GOP/s with 1536 x 2048
// weights, panel by panel and here:
//
//   tokens                   8         16         32        128
//   weights from L2    371 393    493 493    495 512    506 527
//   from memory        205 214    357 423    411 500    478 520
//
// The gain comes from reading memory: while a chunk of the inputs is multiplied, the next is
// prefetched evenly into L2. (Prefetching into L1 as well took 3 to 6 %.) Decoding 8, 16 and 32
// sequences was 1.16, 1.13 and 1.16 times as fast with Llama-3.2-1B's shape, 1.02, 1.04 and 1.01
// times with SmolLM2's, which L3 holds in part. It lost with prompts of 512 tokens, hence the limit
// kBlockTokens: 0.93 to 0.98 of a whole model's rate, because each block of tokens reads the codes
// from L2 again, and a chunk begins with loads that nothing hides. It also lost with 3 to 7 tokens
// (0.96 to 1.03), and with formats of fewer bits (0.83 to 1.02), which must unpack a chunk first.

#include "kernels/linear/q8_chunk_avx512.h"

namespace kvick::kernels {
namespace {

using BlockSums = float[kWide][kPanel];  // of one token

// sums[kTokens] += a chunk's products with some of a tile's tokens. add_group() of
// matmul_avx512_impl.h does this for one panel, with the same bits. q, scale and start are those of
// the first of these tokens.
template <int kTokens>
KVICK_INLINE void add_few(const Q8Chunk& w, size_t panel_bytes, uint32_t tile_tokens,
                          const int8_t* q, const float* scale, const int32_t* start, Asks& asks,
                          BlockSums* sums) {
  __m512 acc[kTokens][kWide];
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
      acc[t][p] = w.first ? _mm512_setzero_ps() : _mm512_load_ps(sums[t][p]);
  for (uint32_t g = 0; g < w.groups; ++g) {
    ask(asks, asks.step);
    __m512i dot[kTokens][kWide];
    DotPairs pairs[kTokens][kWide];
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
        dot[t][p] = _mm512_set1_epi32(start[t]);
    KVICK_UNROLL for (int j = 0; j < 8; ++j) {
      DotCodes codes[kWide];
      KVICK_UNROLL for (int p = 0; p < kWide; ++p) codes[p] =
          dot_codes<kQ8.bits>(line(w.codes[g] + size_t(p) * panel_bytes, j));
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
        const __m512i four = _mm512_broadcastd_epi32(_mm_loadu_si32(q + t * int{kGroup} + 4 * j));
        KVICK_UNROLL for (int p = 0; p < kWide; ++p)
            add_product<kQ8.bits, 8>(j, codes[p], four, pairs[t][p], dot[t][p]);
      }
    }
    KVICK_UNROLL for (int p = 0; p < kWide; ++p) {
      const __m512 s = _mm512_load_ps(w.scale[g][p]), shift = _mm512_load_ps(w.shift[g][p]);
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
        const __m512 value = _mm512_fmadd_ps(_mm512_castsi512_ps(dot[t][p]), s, shift);
        acc[t][p] = _mm512_fmadd_ps(value, _mm512_set1_ps(scale[t]), acc[t][p]);
      }
    }
    q += size_t{tile_tokens} * kGroup;
    scale += tile_tokens;
    start += kTokenTile;
  }
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
      _mm512_store_ps(sums[t][p], acc[t][p]);
}

// Returns the number of parts of a tile's tokens: as few as possible of at most four tokens, of
// similar size.
constexpr uint32_t parts_of(uint32_t tokens) { return (tokens + 3) / 4; }

KVICK_INLINE void add_tile(const Q8Chunk& w, size_t panel_bytes, uint32_t tokens, const int8_t* q,
                           const float* scale, const Starts& starts, Asks& asks, BlockSums* sums) {
  uint32_t parts = parts_of(tokens);
  for (uint32_t t = 0, n; t < tokens; t += n, --parts) {
    n = (tokens - t + parts - 1) / parts;
    const auto add = [&]<int kTokens>() {
      add_few<kTokens>(w, panel_bytes, tokens, q + size_t{t} * kGroup, scale + t, starts[0] + t,
                       asks, sums + t);
    };
    if (n == 4) add.template operator()<4>();
    if (n == 3) add.template operator()<3>();
    if (n == 2) add.template operator()<2>();
    if (n == 1) add.template operator()<1>();
  }
}

void q8_block(const BlockJob& job) {
  const Activations& a = job.a;
  const uint32_t groups = a.groups();
  constexpr uint32_t kPer = groups_per_block(kQ8);
  // Chunks are whole blocks, of similar size.
  const uint32_t chunks = (groups + kChunk - 1) / kChunk;
  const uint32_t chunk = ((groups + chunks - 1) / chunks + kPer - 1) / kPer * kPer;
  const auto lines = static_cast<uint32_t>(panel_bytes(kQ8, chunk) / kLine);
  const uint32_t tokens = job.tokens;
  uint32_t parts = 0;
  for (uint32_t t = 0; t < tokens; t += kTokenTile)
    parts += parts_of(tokens - t < kTokenTile ? tokens - t : kTokenTile);
  alignas(64) BlockSums sums[kBlockTokens];
  alignas(64) Starts starts;
  Q8Chunk w;
  for (uint32_t g = 0; g < groups; g += chunk) {
    w.first = g == 0;
    w.groups = groups - g < chunk ? groups - g : chunk;
    scale_chunk(job, g, w);
    // After the last chunk of these panels comes the first of the next three.
    const size_t next = g + chunk < groups ? block_offset(kQ8, g + chunk) : kWide * job.panel_bytes;
    const uint32_t steps = parts * w.groups;
    Asks asks{job.panel + next, job.panel_bytes, lines / steps};
    for (uint32_t t = 0; t < tokens; t += kTokenTile) {
      const TokenPlace place = token_place(a.tokens, job.first + t);
      const size_t at = place.first * groups + size_t{g} * place.tile_tokens;
      start_chunk(a.sums.data() + 2 * at, place.tile_tokens, w.groups, starts);
      add_tile(w, job.panel_bytes, place.tile_tokens, a.q.data() + at * kGroup, a.scale.data() + at,
               starts, asks, sums + t);
    }
    ask(asks, lines - lines / steps * steps);
  }
  const auto last = static_cast<__mmask16>((1u << (job.rows - (kWide - 1) * kPanel)) - 1);
  for (uint32_t t = 0; t < tokens; ++t)
    for (size_t p = 0; p < kWide; ++p)
      _mm512_mask_storeu_ps(job.y + t * job.y_stride + p * kPanel,
                            p + 1 < kWide ? __mmask16{0xffff} : last, _mm512_load_ps(sums[t][p]));
}

}  // namespace
}  // namespace kvick::kernels
