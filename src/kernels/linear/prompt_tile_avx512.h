#pragma once
// Internal to kernels/: an unpacked chunk of three panels times a tile of tokens, for
// prompt_block_avx512.h. Included inside the same target region.

#include "kernels/linear/prompt_chunk_avx512.h"

namespace kvick::kernels {
namespace {

using PromptSums = float[kPanelsTogether][kPanel];  // of one token

// Tokens whose dot products with three panels are interleaved: twelve chains hide the latency of
// one.
constexpr int kTokensTogether = 4;

// sums[kTokens] += a chunk's products with kTokens tokens of a tile, from `first` on. add_group()
// does this for one panel, with the same bits. q and scale are those of token `first`.
//
// Types with a scale for each 16 inputs need more registers, so their sums are kept in memory. On
// Zen 5, Q6_K reached 668 GOP/s in this way. With the sums of two tokens in registers it reached
// 630 when the two halves of a group were multiplied one after the other, and 594 when they were
// interleaved.
template <DType kType, int kTokens>
KVICK_INLINE void add_tokens(const PromptChunk<kType>& w, uint32_t tile_tokens, const int8_t* q,
                             const float* scale, const Sums* prepared, uint32_t first,
                             PromptSums* sums) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kWide = int{kPanelsTogether}, kParts = PromptChunk<kType>::kParts;
  constexpr int kPart = 8 / kParts;
  __m512 acc[kTokens][kWide];
  const auto load_sums = [&] {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
        acc[t][p] = _mm512_load_ps(sums[t][p]);
  };
  const auto store_sums = [&] {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
        _mm512_store_ps(sums[t][p], acc[t][p]);
  };
  if constexpr (kParts == 1) load_sums();
  for (uint32_t g = 0; g < w.groups; ++g) {
    __m512 value[kTokens][kWide];
    KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
      __m512i dot[kTokens][kWide];
      DotPairs pairs[kTokens][kWide];
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) KVICK_UNROLL for (int p = 0; p < kWide; ++p)
          dot[t][p] = _mm512_set1_epi32(prepared[g].start[h][first + t]);
      KVICK_UNROLL for (int j = h * kPart; j < (h + 1) * kPart; ++j) {
        DotCodes codes[kWide];
        KVICK_UNROLL for (int p = 0; p < kWide; ++p) codes[p] =
            dot_codes<f.value_bits>(line(w.codes[g][p], j));
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          const __m512i four = _mm512_broadcastd_epi32(_mm_loadu_si32(q + t * int{kGroup} + 4 * j));
          KVICK_UNROLL for (int p = 0; p < kWide; ++p) add_product<f.value_bits, kPart>(
              j - h * kPart, codes[p], four, pairs[t][p], dot[t][p]);
        }
      }
      KVICK_UNROLL for (int p = 0; p < kWide; ++p) {
        const __m512 s = _mm512_load_ps(w.scale[g][h][p]), shift = _mm512_load_ps(w.shift[g][p]);
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          value[t][p] = h == 0 ? _mm512_fmadd_ps(_mm512_castsi512_ps(dot[t][p]), s, shift)
                               : _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[t][p]), s, value[t][p]);
          if constexpr (f.has_min)
            value[t][p] =
                _mm512_fmadd_ps(_mm512_load_ps(w.min[g][h][p]),
                                _mm512_set1_ps(prepared[g].sum[h][first + t]), value[t][p]);
        }
      }
    }
    if constexpr (kParts == 2) load_sums();
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m512 s = _mm512_set1_ps(scale[t]);
      KVICK_UNROLL for (int p = 0; p < kWide; ++p) acc[t][p] =
          _mm512_fmadd_ps(value[t][p], s, acc[t][p]);
    }
    if constexpr (kParts == 2) {
      store_sums();
      asm volatile("" : : : "memory");  // or g++ keeps more in registers than there are
    }
    q += size_t{tile_tokens} * kGroup;
    scale += tile_tokens;
  }
  if constexpr (kParts == 1) store_sums();
}

// Divides a tile's tokens into as few parts as possible, of similar size.
template <DType kType>
KVICK_INLINE void add_prompt_tile(const PromptChunk<kType>& w, uint32_t tokens, const int8_t* q,
                                  const float* scale, const Sums* prepared, PromptSums* sums) {
  uint32_t parts = (tokens + kTokensTogether - 1) / kTokensTogether;
  for (uint32_t t = 0, n; t < tokens; t += n, --parts) {
    n = (tokens - t + parts - 1) / parts;
    const auto add = [&]<int kTokens>() {
      add_tokens<kType, kTokens>(w, tokens, q + size_t{t} * kGroup, scale + t, prepared, t,
                                 sums + t);
    };
    if (n == 4) add.template operator()<4>();
    if (n == 3) add.template operator()<3>();
    if (n == 2) add.template operator()<2>();
    if (n == 1) add.template operator()<1>();
  }
}

}  // namespace
}  // namespace kvick::kernels
