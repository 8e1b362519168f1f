#include <immintrin.h>
#include <limits>
#include <utility>

#include "kernels/linear.h"
#include "kernels/matmul.h"
#include "kernels/target.h"

// g++ 12 takes the undefined vectors inside its own intrinsics for a mistake (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

KVICK_TARGET_AVX512_BEGIN

namespace kvick::kernels {
namespace {

#define KVICK_INLINE inline __attribute__((always_inline))

// -- activations
// ------------------------------------------------------------------------------------------------------

KVICK_INLINE __m512i round_to_even(__m512 v) {
  return _mm512_cvt_roundps_epi32(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

void quantise_group(const float* x, const GroupPlace& out) {
  const __m512 x0 = _mm512_loadu_ps(x), x1 = _mm512_loadu_ps(x + 16);
  const __m512i mask = _mm512_set1_epi32(0x7fffffff);
  // As integers, because NaN must win.
  const __m512i magnitude = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(x0), mask),
                                             _mm512_and_si512(_mm512_castps_si512(x1), mask));
  const uint32_t bits = _mm512_reduce_max_epu32(magnitude);
  const float max = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(bits))));
  const bool finite = bits < 0x7f800000u;
  if (!finite || max < kTinyActivation) {
    *out.scale = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    *out.sums[0] = *out.sums[1] = 0;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.q), _mm256_setzero_si256());
    return;
  }
  const __m512 inverse = _mm512_set1_ps(127.0f / max);
  const __m512i q0 = round_to_even(_mm512_mul_ps(x0, inverse));
  const __m512i q1 = round_to_even(_mm512_mul_ps(x1, inverse));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q), _mm512_cvtepi32_epi8(q0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out.q + 16), _mm512_cvtepi32_epi8(q1));
  *out.scale = max / 127.0f;
  *out.sums[0] = _mm512_reduce_add_epi32(q0);
  *out.sums[1] = _mm512_reduce_add_epi32(q1);
}

void quantise(Activations& a, uint32_t begin, uint32_t end) {
  for (uint32_t t = begin; t < end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    for (uint32_t g = 0; g < a.inputs / kGroup; ++g)
      quantise_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup, group_place(a, place, g));
  }
}

// -- weights
// ----------------------------------------------------------------------------------------------------------

KVICK_INLINE __m512i line(const std::byte* in, int i) {
  return _mm512_load_si512(in + i * static_cast<int>(kLine));
}

// Bits of `in` from position `from` on brought to position `to`; what surrounds them is left to a
// mask.
KVICK_INLINE __m512i shifted(__m512i in, int from, int to) {
  return from > to   ? _mm512_srli_epi16(in, static_cast<unsigned>(from - to))
         : from < to ? _mm512_slli_epi16(in, static_cast<unsigned>(to - from))
                     : in;
}

// (in & mask) | rest, in one operation.
KVICK_INLINE __m512i masked_or(__m512i in, __m512i mask, __m512i rest) {
  return _mm512_ternarylogic_epi32(in, mask, rest, 0xea);
}

// The codes of a group, from its planes.
template <int kBits>
KVICK_INLINE void load_codes(const std::byte* planes, __m512i w[8]) {
  if constexpr (kBits == 8) {
    for (int j = 0; j < 8; ++j) w[j] = line(planes, j);
  } else if constexpr (kBits >= 4) {
    const __m512i nibble = _mm512_set1_epi8(15);
    for (int j = 0; j < 4; ++j) {
      const __m512i both = line(planes, j);
      w[j] = _mm512_and_si512(both, nibble);
      w[j + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
    if constexpr (kBits == 5) {
      const __m512i high = line(planes, 4), bit = _mm512_set1_epi8(0x10);
      for (int j = 0; j < 8; ++j) w[j] = masked_or(shifted(high, j, 4), bit, w[j]);
    }
    if constexpr (kBits == 6) {
      const __m512i bits = _mm512_set1_epi8(0x30);
      for (int j = 0; j < 8; ++j)
        w[j] = masked_or(shifted(line(planes, 4 + j / 4), j % 4 * 2, 4), bits, w[j]);
    }
  } else {
    const __m512i pair = _mm512_set1_epi8(3);
    for (int j = 0; j < 8; ++j)
      w[j] = _mm512_and_si512(shifted(line(planes, j / 4), j % 4 * 2, 0), pair);
    if constexpr (kBits == 3) {
      const __m512i high = line(planes, 2), bit = _mm512_set1_epi8(4);
      for (int j = 0; j < 8; ++j) w[j] = masked_or(shifted(high, j, 2), bit, w[j]);
    }
  }
}

// Scales (and mins) of a group: one of each, or one per half.
struct Scales {
  __m512 scale[2], min[2];
};

KVICK_INLINE __m512 load_half(const std::byte* in) {
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(in)));
}
KVICK_INLINE __m512 bytes_to_f32(__m128i bytes) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

template <DType kType>
KVICK_INLINE Scales load_scales(const std::byte* block, const Scales& super, uint32_t group) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  Scales s;
  if constexpr (!f.two_level) {
    s.scale[0] = load_half(block + group * kHalfRow);
    if constexpr (f.has_min) s.min[0] = load_half(block + kLine + group * kHalfRow);
    return s;
  }
  const auto* sub = reinterpret_cast<const __m128i*>(block + kSubScales + group * kSubGroup);
  const __m128i first = _mm_load_si128(sub), second = _mm_load_si128(sub + 1);
  if constexpr (f.scale_group == 32) {
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(first));
    s.min[0] = _mm512_mul_ps(super.min[0], bytes_to_f32(second));
  } else if constexpr (f.has_min) {
    const __m128i nibble = _mm_set1_epi8(15);
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(_mm_and_si128(first, nibble)));
    s.scale[1] = _mm512_mul_ps(super.scale[0], bytes_to_f32(_mm_and_si128(second, nibble)));
    s.min[0] =
        _mm512_mul_ps(super.min[0], bytes_to_f32(_mm_and_si128(_mm_srli_epi16(first, 4), nibble)));
    s.min[1] =
        _mm512_mul_ps(super.min[0], bytes_to_f32(_mm_and_si128(_mm_srli_epi16(second, 4), nibble)));
  } else {
    s.scale[0] = _mm512_mul_ps(super.scale[0], bytes_to_f32(first));
    s.scale[1] = _mm512_mul_ps(super.scale[0], bytes_to_f32(second));
  }
  return s;
}

// -- products
// ---------------------------------------------------------------------------------------------------------

// Per token of a tile, what a group's dot products start from (-zero * sum of q), and the sums
// scaled, for the mins. Computed for all tokens at once and read back one by one as broadcasts,
// which cost a load and nothing else.
struct alignas(64) Sums {
  int32_t start[2][kTokenTile];
  float scaled[2][kTokenTile];
};

template <DType kType, int kTokens>
KVICK_INLINE void prepare_sums(const PanelJob& job, const float* scale, const int32_t* sums,
                               Sums& out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  if constexpr (f.zero == 0 && !f.has_min) return;
  constexpr __mmask16 kUsed = static_cast<__mmask16>((1u << kTokens) - 1);
  __m512i part[2] = {_mm512_maskz_loadu_epi32(kUsed, sums),
                     _mm512_maskz_loadu_epi32(kUsed, sums + job.tile_tokens)};
  if constexpr (kParts == 1) part[0] = _mm512_add_epi32(part[0], part[1]);
  for (int h = 0; h < kParts; ++h) {
    if constexpr (f.zero != 0)
      _mm512_store_si512(out.start[h], _mm512_mullo_epi32(part[h], _mm512_set1_epi32(-f.zero)));
    if constexpr (f.has_min)
      _mm512_store_ps(out.scaled[h], _mm512_mul_ps(_mm512_maskz_loadu_ps(kUsed, scale),
                                                   _mm512_cvtepi32_ps(part[h])));
  }
  asm volatile(
      ""
      : "+m"(out));  // or g++ takes the elements from the registers, with two shuffles each
}

KVICK_INLINE __m512i broadcast4(const int8_t* q) {
  int32_t four;
  __builtin_memcpy(&four, q, 4);
  return _mm512_set1_epi32(four);
}

// The arithmetic of one group and one token: the same for every number of tokens, or results would
// depend on the batch.
template <DType kType>
KVICK_INLINE __m512 add_group(__m512 acc, const __m512i w[8], const Scales& s, const int8_t* q,
                              float scale, const Sums& sums, int token) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  for (int h = 0; h < kParts; ++h) {
    __m512i dot = f.zero != 0 ? _mm512_set1_epi32(sums.start[h][token]) : _mm512_setzero_si512();
    for (int j = h * 4; j < (kParts == 1 ? 8 : h * 4 + 4); ++j)
      dot = _mm512_dpbusd_epi32(dot, w[j], broadcast4(q + 4 * j));
    const __m512 both = _mm512_mul_ps(s.scale[h], _mm512_set1_ps(scale));
    acc = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot), both, acc);
    if constexpr (f.has_min)
      acc = _mm512_fmadd_ps(s.min[h], _mm512_set1_ps(sums.scaled[h][token]), acc);
  }
  return acc;
}

KVICK_INLINE void store_rows(const PanelJob& job, int token, __m512 acc) {
  const auto valid = static_cast<__mmask16>((1u << job.rows) - 1);
  _mm512_mask_storeu_ps(job.y + token * job.y_stride, valid, acc);
}

template <DType kType, int kTokens>
void quantised_panel(const PanelJob& job) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr uint32_t kPerBlock = groups_per_block(f);
  __m512 acc[kTokens];
  for (int t = 0; t < kTokens; ++t) acc[t] = _mm512_setzero_ps();
  const std::byte* block = job.panel;
  const int8_t* q = job.q;
  const float* scale = job.scale;
  const int32_t* sums = job.sums;
  const uint32_t groups = job.inputs / kGroup;
  for (uint32_t first = 0; first < groups; first += kPerBlock) {
    const uint32_t n = groups - first < kPerBlock ? groups - first : kPerBlock;
    Scales super;
    if constexpr (f.two_level) {
      super.scale[0] = load_half(block);
      super.min[0] = load_half(block + kHalfRow);
    }
    const std::byte* planes = block + header_bytes(f);
    for (uint32_t g = 0; g < n; ++g, planes += plane_bytes(f)) {
      __m512i w[8];
      load_codes<f.bits>(planes, w);
      const Scales s = load_scales<kType>(block, super, g);
      Sums prepared;
      prepare_sums<kType, kTokens>(job, scale, sums, prepared);
      for (int t = 0; t < kTokens; ++t)
        acc[t] =
            add_group<kType>(acc[t], w, s, q + t * static_cast<int>(kGroup), scale[t], prepared, t);
      q += size_t{job.tile_tokens} * kGroup;
      scale += job.tile_tokens;
      sums += 2 * size_t{job.tile_tokens};
    }
    block = planes;
  }
  for (int t = 0; t < kTokens; ++t) store_rows(job, t, acc[t]);
}

template <DType kType>
KVICK_INLINE __m512 load_weights(const std::byte* panel, size_t input) {
  if constexpr (kType == DType::kF32) return _mm512_load_ps(panel + input * 64);
  const __m256i halves = _mm256_load_si256(reinterpret_cast<const __m256i*>(panel + input * 32));
  if constexpr (kType == DType::kF16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

// Even and odd inputs are summed apart, so that one token is not bound by the latency of its
// additions.
template <DType kType, int kTokens>
void float_panel(const PanelJob& job) {
  __m512 even[kTokens], odd[kTokens];
  for (int t = 0; t < kTokens; ++t) even[t] = odd[t] = _mm512_setzero_ps();
  for (size_t i = 0; i < job.inputs; i += 2) {
    const __m512 w0 = load_weights<kType>(job.panel, i), w1 = load_weights<kType>(job.panel, i + 1);
    for (int t = 0; t < kTokens; ++t) {
      const float* x = job.x + size_t(t) * job.inputs + i;
      even[t] = _mm512_fmadd_ps(w0, _mm512_set1_ps(x[0]), even[t]);
      odd[t] = _mm512_fmadd_ps(w1, _mm512_set1_ps(x[1]), odd[t]);
    }
  }
  for (int t = 0; t < kTokens; ++t) store_rows(job, t, _mm512_add_ps(even[t], odd[t]));
}

template <DType kType, int kTokens>
constexpr PanelFunction panel_function() {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    return quantised_panel<kType, kTokens>;
  else
    return kTokens <= 8 ? float_panel<kType, kTokens> : nullptr;
}

template <DType kType, int... kTokens>
constexpr void add_format(PanelFunctions& functions) {
  ((functions.of[static_cast<int>(kType)][kTokens - 1] = panel_function<kType, kTokens>()), ...);
}

template <int... kType>
constexpr PanelFunctions make_functions(std::integer_sequence<int, kType...>) {
  PanelFunctions functions{};
  (add_format<static_cast<DType>(kType), 1, 2, 3, 4, 8, 16>(functions), ...);
  return functions;
}

constexpr PanelFunctions kFunctions = make_functions(std::make_integer_sequence<int, kDTypes>());

void matmul(const Matrix& w, const Activations& a, float* y, size_t y_stride, uint32_t begin,
            uint32_t end) {
  run_matmul(kFunctions, w, a, y, y_stride, begin, end);
}

}  // namespace

void fill_linear_avx512(Table& table) {
  table.quantise = quantise;
  table.matmul = matmul;
}

}  // namespace kvick::kernels

KVICK_TARGET_END
