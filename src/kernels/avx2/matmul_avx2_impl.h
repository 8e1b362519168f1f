#pragma once
// Internal to kernels/: the linear layers with AVX2, FMA and F16C: a panel as two halves of 8 rows,
// one register each. Included inside a target region, after dots_avx2.h or dots_avxvnni.h, which
// define how products are added. The results have the same bits with both.

#include "kernels/avx2/prompt_block_avx2.h"

namespace kvick::kernels {
namespace {

// -- activations --

KVICK_INLINE uint32_t largest(__m256i v) {
  __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0x4e));
  m = _mm_max_epu32(m, _mm_shuffle_epi32(m, 0xb1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

KVICK_INLINE int32_t sum(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

void quantise_group(const float* x, const GroupPlace& out) {
  const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  __m256i magnitude = _mm256_setzero_si256();  // as integers, so that NaN wins
  for (int i = 0; i < 4; ++i)
    magnitude = _mm256_max_epu32(
        magnitude, _mm256_castps_si256(_mm256_and_ps(_mm256_loadu_ps(x + kLanes * i), mask)));
  const uint32_t bits = largest(magnitude);
  const float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  const bool finite = bits < 0x7f800000u;
  if (!finite || max < kTinyActivation) {
    *out.scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    *out.sums[0] = *out.sums[1] = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q), _mm256_setzero_si256());
    return;
  }
  const __m256 inverse = _mm256_set1_ps(127.0f / max);
  __m256i q[4];
  for (int i = 0; i < 4; ++i) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + kLanes * i), inverse);
    q[i] =
        _mm256_cvtps_epi32(_mm256_round_ps(scaled, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  *out.scale = max / 127.0f;
  *out.sums[0] = sum(_mm256_add_epi32(q[0], q[1]));
  *out.sums[1] = sum(_mm256_add_epi32(q[2], q[3]));
  // Packing works within halves of 128 bits: the permutation puts the fours of bytes back in order.
  const __m256i bytes =
      _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(out.q),
      _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
}

void quantise(Activations& a, Range tokens, Range groups) {
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    for (uint32_t g = groups.begin; g < groups.end; ++g)
      quantise_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup, group_place(a, place, g));
  }
}

// Adds one group of inputs for 8 rows and all tokens. A token's arithmetic must be the same for
// every kTokens, or results would depend on the batch.
template <DType kType, int kTokens>
KVICK_INLINE void add_group(const PanelJob& job, size_t group, const std::byte* planes,
                            const Scales& s, __m256* acc) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  constexpr int kZero = zero_of(f);
  const size_t first = group * job.tile_tokens;
  const int32_t* sums = job.sums + 2 * first;
  const int8_t* q = job.q + first * kGroup;
  __m256 value[kTokens];
  KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
    int32_t total[kTokens];
    __m256i products[kTokens];
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      total[t] = kParts == 1 ? sums[t] + sums[t + job.tile_tokens] : sums[t + h * job.tile_tokens];
      products[t] = kZero == 0 ? _mm256_setzero_si256() : _mm256_set1_epi32(-kZero * total[t]);
    }
    if constexpr (kParts == 1)
      dot<kType, kTokens, 0, 8>(planes, q, products);
    else if (h == 0)
      dot<kType, kTokens, 0, 4>(planes, q, products);
    else
      dot<kType, kTokens, 4, 8>(planes, q, products);
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      const __m256 product = _mm256_cvtepi32_ps(products[t]);
      value[t] = h == 0 ? _mm256_mul_ps(product, s.scale[h])
                        : _mm256_fmadd_ps(product, s.scale[h], value[t]);
      if constexpr (f.has_min)
        value[t] =
            _mm256_fmadd_ps(s.min[h], _mm256_set1_ps(static_cast<float>(total[t])), value[t]);
    }
  }
  KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
    acc[t] = _mm256_fmadd_ps(value[t], _mm256_set1_ps(job.scale[first + t]), acc[t]);
  }
}

KVICK_INLINE void prefetch(const Ahead& ahead, const std::byte* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kLine) {
    _mm_prefetch(reinterpret_cast<const char*>(at + ahead.far + i), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(at + ahead.near + i), _MM_HINT_T0);
  }
}

KVICK_INLINE void store_rows(const PanelJob& job, int token, int half, __m256 acc) {
  const __m256i valid =
      _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(job.rows) - kLanes * half),
                         _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  // A half without rows may be outside of y; not even its address may be formed.
  if (static_cast<int>(job.rows) > kLanes * half)
    _mm256_maskstore_ps(job.y + token * job.y_stride + kLanes * half, valid, acc);
}

// Computes kCount halves of the panel from `half` on.
template <DType kType, int kTokens, int kCount>
KVICK_INLINE void quantised_halves(const PanelJob& job, int half, const Ahead& ahead) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr uint32_t kPerBlock = groups_per_block(f);
  __m256 acc[kCount][kTokens];
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) acc[c][t] = _mm256_setzero_ps();
  }
  const std::byte* block = job.panel;
  const uint32_t groups = job.inputs / kGroup;
  for (uint32_t first = 0; first < groups; first += kPerBlock) {
    const uint32_t n = groups - first < kPerBlock ? groups - first : kPerBlock;
    const std::byte* planes = block + header_bytes(f);
    prefetch(ahead, block, header_bytes(f));
    for (uint32_t g = 0; g < n; ++g, planes += plane_bytes(f)) {
      prefetch(ahead, planes, plane_bytes(f));
      KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
        add_group<kType, kTokens>(job, first + g, planes + (half + c) * (kLine / kHalves),
                                  load_scales<kType>(block, g, half + c), acc[c]);
      }
    }
    block = planes;
  }
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) store_rows(job, t, half + c, acc[c][t]);
  }
}

template <DType kType>
KVICK_INLINE __m256 load_weights(const std::byte* panel, size_t input, int half) {
  const size_t at = input * kPanel + static_cast<size_t>(half * kLanes);
  if constexpr (kType == DType::kF32)
    return _mm256_load_ps(reinterpret_cast<const float*>(panel) + at);
  if constexpr (kType == DType::kF16)
    return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(panel + at * 2)));
  const __m256i both = _mm256_load_si256(reinterpret_cast<const __m256i*>(
      panel + 2 * float_place(kType, static_cast<uint32_t>(input) & ~1U,
                              static_cast<uint32_t>(half * kLanes))));
  return _mm256_castsi256_ps(input % 2 == 0 ? _mm256_slli_epi32(both, 16)
                                            : _mm256_and_si256(both, _mm256_set1_epi32(-0x10000)));
}

// Sums even and odd inputs separately, so that one token is not bound by the latency of its
// additions.
template <DType kType, int kTokens, int kCount>
KVICK_INLINE void float_halves(const PanelJob& job, int half, const Ahead& ahead) {
  constexpr size_t kBytes = kType == DType::kF32 ? 2 * kLine : kLine;  // of two inputs
  __m256 acc[2][kCount][kTokens];
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) acc[0][c][t] = acc[1][c][t] =
        _mm256_setzero_ps();
  }
  for (size_t i = 0; i < job.inputs; i += 2) {
    prefetch(ahead, job.panel + i / 2 * kBytes, kBytes);
    KVICK_UNROLL for (int odd = 0; odd < 2; ++odd) {
      KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
        const __m256 w = load_weights<kType>(job.panel, i + odd, half + c);
        KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
          const __m256 x = _mm256_set1_ps(job.x[static_cast<size_t>(t) * job.inputs + i + odd]);
          acc[odd][c][t] = _mm256_fmadd_ps(w, x, acc[odd][c][t]);
        }
      }
    }
  }
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      store_rows(job, t, half + c, _mm256_add_ps(acc[0][c][t], acc[1][c][t]));
    }
  }
}

template <DType kType, int kTokens, int kCount>
KVICK_INLINE void halves(const PanelJob& job, int half, const Ahead& ahead) {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    quantised_halves<kType, kTokens, kCount>(job, half, ahead);
  else
    float_halves<kType, kTokens, kCount>(job, half, ahead);
}

// With one or two tokens, both halves of a line are used while it is in cache. Four tokens leave
// registers for only one half.
template <DType kType, int kTokens>
void panel(const PanelJob& job) {
  const Ahead ahead = ahead_of(job, kTokens, kAhead);
  if constexpr (kTokens <= 2) {
    halves<kType, kTokens, 2>(job, 0, ahead);
  } else {
    halves<kType, kTokens, 1>(job, 0, ahead);
    halves<kType, kTokens, 1>(job, 1, kHere);
  }
}

template <DType kType, int... kTokens>
constexpr void add_format(PanelFunctions& functions) {
  ((functions.of[static_cast<int>(kType)][kTokens - 1] = panel<kernel_type(kType), kTokens>), ...);
  functions.prompt[static_cast<int>(kType)] = prompt_function<kType>();
}

template <int... kType>
constexpr PanelFunctions make_functions(std::integer_sequence<int, kType...>) {
  PanelFunctions functions{};
  functions.prompt_least = kBlockLeast;
  (add_format<static_cast<DType>(kType), 1, 2, 4>(functions), ...);
  return functions;
}

constexpr PanelFunctions kFunctions =
    make_functions(std::make_integer_sequence<int, kWeightTypes>());

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  run_matmul(kFunctions, w, a, y, y_stride, begin, end);
}

}  // namespace
}  // namespace kvick::kernels
