#pragma once
// Internal to kernels/: panels times tokens with AVX-512, for both ways of multiplying 8-bit
// integers: dots_vnni.h and dots_avx512.h. Included inside the target region of matmul_vnni.cc,
// matmul_vbmi.cc and matmul_avx512.cc after one of these.
//
// Both give the same bits: their integer dot products are exact, and all other operations are in
// this file.

#include "kernels/linear/panel_avx512.h"

namespace kvick::kernels {
namespace {

// -- products -------------------------------------------------------------------------------------

// Per token of a tile and part of a group with its own scale: the start value of the dot products
// (-zero_left * sum of q), and the sum for the mins. Computed for all tokens at once and read back
// one by one as broadcasts, which cost only a load.
struct alignas(64) Sums {
  int32_t start[2][kTokenTile];
  float sum[2][kTokenTile];
};

// With many tokens, the dot products of a group's first part start at the bits of kFloatStart, so
// that they end as floats (see panel_avx512.h). That is 5 % faster from 8 tokens on, but 2 % slower
// with one token, whose scales are used only once.
constexpr int32_t start_of(int tokens, int part) {
  return tokens >= 8 && part == 0 ? kFloatStartBits : 0;
}

template <DType kType, int kTokens>
KVICK_INLINE void prepare_sums(const PanelJob& job, const int32_t* sums, Sums& out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  if constexpr (kTokens == 1) {
    for (int h = 0; h < kParts; ++h) {
      const int32_t part =
          kParts == 1 ? sums[0] + sums[job.tile_tokens] : sums[h == 0 ? 0 : job.tile_tokens];
      out.start[h][0] = start_of(kTokens, h) - zero_left(f) * part;
      out.sum[h][0] = static_cast<float>(part);
    }
  } else if constexpr (zero_left(f) != 0 || f.has_min) {
    constexpr auto kUsed = static_cast<__mmask16>((1u << kTokens) - 1);
    __m512i part[2] = {_mm512_maskz_loadu_epi32(kUsed, sums),
                       _mm512_maskz_loadu_epi32(kUsed, sums + job.tile_tokens)};
    if constexpr (kParts == 1) part[0] = _mm512_add_epi32(part[0], part[1]);
    for (int h = 0; h < kParts; ++h) {
      if constexpr (zero_left(f) != 0)
        _mm512_store_si512(
            out.start[h],
            _mm512_add_epi32(_mm512_set1_epi32(start_of(kTokens, h)),
                             _mm512_mullo_epi32(part[h], _mm512_set1_epi32(-zero_left(f)))));
      if constexpr (f.has_min) _mm512_store_ps(out.sum[h], _mm512_cvtepi32_ps(part[h]));
    }
    // Without this g++ extracts the elements from registers again, with two shuffles each.
    asm volatile("" : "+m"(out));
  }
}

// Adds one group for kTogether tokens from `first` on: acc += ((dot * scale) + sum * min) *
// activation scale. The operations must be the same for any number of tokens, or results would
// depend on the batch. Several chains of dot products are interleaved, because one takes 8 times 5
// cycles: 16 tokens of Q8_0 ran at 400, 409 and 449 GOP/s with 1, 2 and 4 chains.
template <DType kType, int kTokens, int kTogether, bool kAsks>
KVICK_INLINE void add_group(__m512* acc, const __m512i* w, const Scales& s, const int8_t* q,
                            const float* scale, const Sums& sums, int first, const std::byte* near,
                            const std::byte* far) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  constexpr int kPart = 8 / kParts;  // registers of one scale
  const __m512 shift = _mm512_mul_ps(s.scale[0], _mm512_set1_ps(-kFloatStart));
  __m512 value[kTogether];
  KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
    __m512i dot[kTogether];
    DotPairs pairs[kTogether];
    KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
      dot[i] = zero_left(f) != 0 ? _mm512_set1_epi32(sums.start[h][first + i])
                                 : _mm512_set1_epi32(start_of(kTokens, h));
    }
    KVICK_UNROLL for (int j = h * kPart; j < (h + 1) * kPart; ++j) {
      if (kAsks && j < f.bits && first == 0)
        _mm_prefetch(reinterpret_cast<const char*>(far + j * int{kLine}), _MM_HINT_T1);
      if (kAsks && j < f.bits && first + kTogether == kTokens)
        _mm_prefetch(reinterpret_cast<const char*>(near + j * int{kLine}), _MM_HINT_T0);
      const DotCodes codes = dot_codes<f.value_bits>(w[j]);
      KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
        add_product<f.value_bits, kPart>(j - h * kPart, codes,
                                         q + (first + i) * static_cast<int>(kGroup) + 4 * j,
                                         pairs[i], dot[i]);
      }
    }
    KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
      if constexpr (start_of(kTokens, 0) != 0) {
        value[i] = h == 0 ? _mm512_fmadd_ps(_mm512_castsi512_ps(dot[i]), s.scale[h], shift)
                          : _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[i]), s.scale[h], value[i]);
      } else {
        const __m512 product = _mm512_cvtepi32_ps(dot[i]);
        value[i] = h == 0 ? _mm512_mul_ps(product, s.scale[h])
                          : _mm512_fmadd_ps(product, s.scale[h], value[i]);
      }
      if constexpr (f.has_min)
        value[i] = _mm512_fmadd_ps(s.min[h], _mm512_set1_ps(sums.sum[h][first + i]), value[i]);
    }
  }
  KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
    acc[first + i] = _mm512_fmadd_ps(value[i], _mm512_set1_ps(scale[first + i]), acc[first + i]);
  }
}

KVICK_INLINE void store_rows(const PanelJob& job, int token, __m512 acc) {
  const auto valid = static_cast<__mmask16>((1u << job.rows) - 1);
  _mm512_mask_storeu_ps(job.y + token * job.y_stride, valid, acc);
}

// Returns how many tokens from `first` on, of `tokens` in all, have interleaved dot products.
constexpr int chains(int tokens, int first) {
  for (const int n : {4, 3, 5})
    if (tokens % n == 0) return n;
  if (tokens < 11) return tokens;
  const int left = tokens - first;
  return left <= 5 ? left : left == 6 ? 3 : 4;
}

// Returns chains(), or fewer where registers cannot hold the sums, the codes, the scales and the
// values of two parts of a group for each token. Many tokens are bound by loads, and spilled
// registers are loaded too.
template <DType kType>
constexpr int together(int tokens, int first) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  const int n = chains(tokens, first);
  if (f.scale_group == 32 || tokens < 8) return n;
  const int left = 32 - tokens - 8 - (f.has_min ? 4 : 2) - 1;
  return 2 * n <= left ? n : left / 2;
}

// Calls add_group() for all tokens from kFirst on.
template <DType kType, int kTokens, bool kAsks, int kFirst = 0>
KVICK_INLINE void add_groups(__m512* acc, const __m512i* w, const Scales& s, const int8_t* q,
                             const float* scale, const Sums& sums, const std::byte* near,
                             const std::byte* far) {
  if constexpr (kFirst < kTokens) {
    constexpr int kLeft = kTokens - kFirst, kFits = together<kType>(kTokens, kFirst);
    constexpr int kTogether = kFits < kLeft ? kFits : kLeft;
    add_group<kType, kTokens, kTogether, kAsks>(acc, w, s, q, scale, sums, kFirst, near, far);
    add_groups<kType, kTokens, kAsks, kFirst + kTogether>(acc, w, s, q, scale, sums, near, far);
  }
}

// Returns how far ahead codes are prefetched. GB/s of a Zen 4 core with 4 and 8 KiB, 1536 x 4096
// weights from memory (a plain loop reads 36 GB/s, and 16 KiB are like 8):
//
//   tokens   Q4_0         MXFP4        Q8_0
//   1        21.3 23.5    19.5 24.8    28.0 22.5
//   2        19.4 30.2    19.6 27.1    21.4 22.3
//   4        20.2 23.4    18.9 20.2    19.9 27.2
//
// Many tokens take longer per byte, so half of that is enough: 8 tokens of Q4_0 ran at 324 GOP/s
// with 2 KiB, 357 with 4. On an Emerald Rapids core 8 KiB were as fast as 4 with one token of Q8_0,
// and up to 1.1 times slower with 4 to 16 tokens, which are multiplied with three panels together
// there (q8_block_avx512.h).
template <DType kType, int kTokens>
constexpr Ahead ahead_of_codes() {
  if (kTokens == 1 && kPackFormats[static_cast<size_t>(kType)].bits == 8) return kAhead;
  return kTokens >= 8 ? Ahead{kAhead.near / 2, kAhead.far} : Ahead{kAhead.near, 2 * kAhead.far};
}

template <DType kType, int kTokens, bool kAsks = true>
void quantised_panel(const PanelJob& job) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr uint32_t kPerBlock = groups_per_block(f);
  __m512 acc[kTokens];
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_setzero_ps();
  const std::byte* block = job.panel;
  const int8_t* q = job.q;
  const float* scale = job.scale;
  const int32_t* sums = job.sums;
  const uint32_t groups = job.inputs / kGroup;
  const Ahead ahead = kAsks ? ahead_of(job, kTokens, ahead_of_codes<kType, kTokens>()) : kHere;
  for (uint32_t first = 0; first < groups; first += kPerBlock) {
    const uint32_t n = groups - first < kPerBlock ? groups - first : kPerBlock;
    const Scales super = load_super<kType>(block);
    const std::byte* planes = block + header_bytes(f);
    if constexpr (kAsks) prefetch(ahead, block, header_bytes(f));
    for (uint32_t g = 0; g < n; ++g, planes += plane_bytes(f)) {
      __m512i w[8];
      load_values<kType>(planes, w);
      const Scales s = load_scales<kType>(block, super, g);
      Sums prepared;
      prepare_sums<kType, kTokens>(job, sums, prepared);
      add_groups<kType, kTokens, kAsks>(acc, w, s, q, scale, prepared, planes + ahead.near,
                                        planes + ahead.far);
      q += size_t{job.tile_tokens} * kGroup;
      scale += job.tile_tokens;
      sums += 2 * size_t{job.tile_tokens};
    }
    block = planes;
  }
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) store_rows(job, t, acc[t]);
}

// The weights of inputs `input`, which is even, and input + 1.
struct WeightPair {
  __m512 even, odd;
};
template <DType kType>
KVICK_INLINE WeightPair load_weights(const std::byte* panel, size_t input) {
  if constexpr (kType == DType::kF32)
    return {_mm512_load_ps(panel + input * 64), _mm512_load_ps(panel + input * 64 + 64)};
  if constexpr (kType == DType::kF16)
    return {load_half(panel + input * kHalfRow), load_half(panel + (input + 1) * kHalfRow)};
  const __m512i both = _mm512_load_si512(panel + input * kHalfRow);
  return {_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)),
          _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(-0x10000)))};
}

// Sums even and odd inputs separately, so that one token is not bound by the latency of its
// additions.
template <DType kType, int kTokens>
void float_panel(const PanelJob& job) {
  __m512 even[kTokens], odd[kTokens];
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) even[t] = odd[t] = _mm512_setzero_ps();
  const Ahead ahead = ahead_of(job, kTokens, kAhead);
  constexpr size_t kBytes = kType == DType::kF32 ? 2 * kLine : kLine;  // of two inputs
  for (size_t i = 0; i < job.inputs; i += 2) {
    prefetch(ahead, job.panel + i / 2 * kBytes, kBytes);
    const WeightPair w = load_weights<kType>(job.panel, i);
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const float* x = job.x + size_t(t) * job.inputs + i;
      even[t] = _mm512_fmadd_ps(w.even, _mm512_set1_ps(x[0]), even[t]);
      odd[t] = _mm512_fmadd_ps(w.odd, _mm512_set1_ps(x[1]), odd[t]);
    }
  }
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) store_rows(job, t, _mm512_add_ps(even[t], odd[t]));
}

// The numbers of tokens for which less frequent formats have functions: float formats, which few
// tensors have, and those packed from IQ1 to IQ3 and TQ.
constexpr bool some_counts(int tokens) {
  return tokens <= 4 || tokens == 6 || tokens == 8 || tokens == 12;
}
constexpr bool is_frequent(DType type) { return type < DType::kIQ3_S; }

template <DType kType, int kTokens>
constexpr PanelFunction panel_function() {
  constexpr bool kSome = some_counts(kTokens);
  if constexpr (!kPackFormats[static_cast<size_t>(kType)].quantised)
    return kSome ? float_panel<kType, kTokens> : nullptr;
  else if constexpr (is_frequent(kType) || kSome || kTokens == int{kTokenTile})
    return quantised_panel<kernel_type(kType), kTokens>;
  else
    return nullptr;
}

// Returns the function for one token, without prefetches.
template <DType kType>
constexpr PanelFunction silent_function() {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    return quantised_panel<kernel_type(kType), 1, false>;
  else
    return nullptr;
}

}  // namespace
}  // namespace kvick::kernels
