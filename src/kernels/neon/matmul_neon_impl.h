#pragma once
// Internal to kernels/: panels times tokens with NEON, for both ways of multiplying 8-bit integers:
// dots_neon.h and dots_i8mm.h. Included inside the target region of matmul_neon.cc and
// matmul_i8mm.cc after one of these, codes_neon.h and scales_neon.h. The two give the same bits.
//
// A vector holds 4 inputs of 4 rows of a panel, and SDOT multiplies it with 4 activations of a
// token, selected by lane. Nothing here has been timed on a processor: docs/results/arm.md counts
// instructions. There are no prefetches, because their gain cannot be known without a processor.

namespace kvick::kernels {
namespace {

// -- activations

KVICK_INLINE void quantise_group(const float* x, const GroupPlace& out) {
  uint32x4_t magnitude = vdupq_n_u32(0);  // as integers, so that NaN wins
  KVICK_UNROLL for (int i = 0; i < 8; ++i) {
    const uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x + kLanes * i));
    magnitude = vmaxq_u32(magnitude, vandq_u32(bits, vdupq_n_u32(0x7fffffff)));
  }
  const uint32_t bits = vmaxvq_u32(magnitude);
  const float max = __builtin_bit_cast(float, bits);
  const bool finite = bits < 0x7f800000u;
  if (!finite || max < kTinyActivation) {
    *out.scale = finite ? 0.0f : __builtin_nanf("");
    *out.sums[0] = *out.sums[1] = 0;
    __builtin_memset(out.q, 0, kGroup);
    return;
  }
  const float inverse = 127.0f / max;
  *out.scale = max / 127.0f;
  KVICK_UNROLL for (int h = 0; h < 2; ++h) {
    int32x4_t q[4];
    KVICK_UNROLL for (int i = 0; i < 4; ++i) {
      q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 16 * h + kLanes * i), inverse));
    }
    *out.sums[h] = vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
    const int16x8_t a = vcombine_s16(vmovn_s32(q[0]), vmovn_s32(q[1]));
    const int16x8_t b = vcombine_s16(vmovn_s32(q[2]), vmovn_s32(q[3]));
    vst1q_s8(out.q + 16 * h, vcombine_s8(vmovn_s16(a), vmovn_s16(b)));
  }
}

void quantise(Activations& a, Range tokens, Range groups) {
  for (uint32_t t = tokens.begin; t < tokens.end; ++t) {
    const TokenPlace place = token_place(a.tokens, t);
    for (uint32_t g = groups.begin; g < groups.end; ++g)
      quantise_group(a.x + size_t{t} * a.inputs + size_t{g} * kGroup, group_place(a, place, g));
  }
}

// -- products

// The start of the dot products of each token and part of a group, and the sum for the mins. They
// are read back one by one as broadcasts.
template <int kTokens>
struct Sums {
  int32_t start[2][kTokens];
  float sum[2][kTokens];
};
template <DType kType, int kTokens>
KVICK_INLINE void prepare_sums(const int32_t* sums, uint32_t tile_tokens, Sums<kTokens>& out) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  if constexpr (zero_left(f) == 0 && !f.has_min) return;
  const int32_t* const halves[2] = {sums, sums + tile_tokens};
  for (int h = 0; h < (f.scale_group == 32 ? 1 : 2); ++h) {
    if constexpr (kTokens % 4 == 0) {
      KVICK_UNROLL for (int t = 0; t < kTokens; t += 4) {
        int32x4_t part = vld1q_s32(halves[h] + t);
        if constexpr (f.scale_group == 32) part = vaddq_s32(part, vld1q_s32(halves[1] + t));
        vst1q_s32(out.start[h] + t, vmulq_n_s32(part, -zero_left(f)));
        vst1q_f32(out.sum[h] + t, vcvtq_f32_s32(part));
      }
    } else {
      for (int t = 0; t < kTokens; ++t) {
        const int32_t part = halves[h][t] + (f.scale_group == 32 ? halves[1][t] : 0);
        out.start[h][t] = -zero_left(f) * part;
        out.sum[h][t] = static_cast<float>(part);
      }
    }
  }
}

// Adds one group of inputs for 4 rows and all tokens. A token's arithmetic must be the same for
// every kTokens, or results would depend on the batch.
template <DType kType, int kTokens>
KVICK_INLINE void add_group(const std::byte* planes, const Scales& s, const int8_t* q,
                            const float* scale, const Sums<kTokens>& sums, float32x4_t* acc) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr int kParts = f.scale_group == 32 ? 1 : 2;
  constexpr int kPart = 8 / kParts;  // registers of one scale
  constexpr int kTogether = tokens_together(kTokens);
  uint8x16_t w[8];
  load_values<kType>(planes, w, std::make_integer_sequence<int, 8>());
  arrange<kTogether>(w);
  // Without this g++ keeps the activations of all tokens from the last quarter, and spills those it
  // needs now.
  asm("" : "+r"(q));
  KVICK_UNROLL for (int t = 0; t < kTokens; t += kTogether) {
    const int8_t* const of_tokens = q + t * static_cast<int>(kGroup);
    float32x4_t value[kTogether];
    KVICK_UNROLL for (int h = 0; h < kParts; ++h) {
      int32x4_t products[kTogether];
      dot_products<kTogether, kPart>(w + h * kPart, of_tokens + 4 * h * kPart,
                                     zero_left(f) == 0 ? nullptr : sums.start[h] + t, products);
      KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
        const float32x4_t product = vcvtq_f32_s32(products[i]);
        value[i] =
            h == 0 ? vmulq_f32(product, s.scale[h]) : vfmaq_f32(value[i], product, s.scale[h]);
        if constexpr (f.has_min) value[i] = vfmaq_n_f32(value[i], s.min[h], sums.sum[h][t + i]);
      }
    }
    KVICK_UNROLL for (int i = 0; i < kTogether; ++i) {
      acc[t + i] = vfmaq_n_f32(acc[t + i], value[i], scale[t + i]);
    }
  }
}

KVICK_INLINE void store_rows(const PanelJob& job, int token, int quarter, float32x4_t acc) {
  const int left = static_cast<int>(job.rows) - kLanes * quarter;
  if (left <= 0) return;  // y may end before; not even its address may be formed
  float* const y = job.y + token * job.y_stride + kLanes * quarter;
  if (left >= kLanes) return vst1q_f32(y, acc);
  float lanes[kLanes];
  vst1q_f32(lanes, acc);
  for (int i = 0; i < left; ++i) y[i] = lanes[i];
}

// Computes kCount quarters of the panel from `quarter` on.
template <DType kType, int kTokens, int kCount>
KVICK_INLINE void quantised_quarters(const PanelJob& job, int quarter) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  constexpr uint32_t kPerBlock = groups_per_block(f);
  float32x4_t acc[kCount][kTokens];
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) acc[c][t] = vdupq_n_f32(0);
  }
  const std::byte* block = job.panel;
  const int8_t* q = job.q;
  const float* scale = job.scale;
  const int32_t* sums = job.sums;
  const uint32_t groups = job.inputs / kGroup;
  for (uint32_t first = 0; first < groups; first += kPerBlock) {
    const uint32_t n = groups - first < kPerBlock ? groups - first : kPerBlock;
    const std::byte* planes = block + header_bytes(f);
    Scales super[kCount];
    KVICK_UNROLL for (int c = 0; c < kCount; ++c) super[c] = load_super<kType>(block, quarter + c);
    for (uint32_t g = 0; g < n; ++g, planes += plane_bytes(f)) {
      Sums<kTokens> prepared;
      prepare_sums<kType, kTokens>(sums, job.tile_tokens, prepared);
      KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
        add_group<kType, kTokens>(planes + (quarter + c) * kQuarterLine,
                                  load_scales<kType>(block, super[c], g, quarter + c), q, scale,
                                  prepared, acc[c]);
      }
      q += size_t{job.tile_tokens} * kGroup;
      scale += job.tile_tokens;
      sums += 2 * size_t{job.tile_tokens};
    }
    block = planes;
  }
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) store_rows(job, t, quarter + c, acc[c][t]);
  }
}

// -- floats

// The weights of 4 rows for inputs `input`, which is even, and input + 1.
struct WeightPair {
  float32x4_t even, odd;
};
template <DType kType>
KVICK_INLINE WeightPair load_weights(const std::byte* panel, size_t input, int quarter) {
  if constexpr (kType == DType::kF32) {
    const auto* at = reinterpret_cast<const float*>(panel) + input * kPanel + quarter * kLanes;
    return {vld1q_f32(at), vld1q_f32(at + kPanel)};
  } else if constexpr (kType == DType::kF16) {
    const std::byte* const at = panel + input * kHalfRow + quarter * 8;
    return {load_half(at), load_half(at + kHalfRow)};
  } else {
    const auto* at = reinterpret_cast<const uint32_t*>(panel) + input / 2 * kPanel;
    const uint32x4_t both = vld1q_u32(at + quarter * kLanes);
    return {vreinterpretq_f32_u32(vshlq_n_u32(both, 16)),
            vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000)))};
  }
}

// Sums even and odd inputs separately, so that one token is not bound by the latency of its
// additions.
template <DType kType, int kTokens, int kCount>
KVICK_INLINE void float_quarters(const PanelJob& job, int quarter) {
  float32x4_t even[kCount][kTokens], odd[kCount][kTokens];
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) even[c][t] = odd[c][t] = vdupq_n_f32(0);
  }
  for (size_t i = 0; i < job.inputs; i += 4) {
    float32x4_t x[kTokens];
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      x[t] = vld1q_f32(job.x + static_cast<size_t>(t) * job.inputs + i);
    }
    KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
      const WeightPair a = load_weights<kType>(job.panel, i, quarter + c);
      const WeightPair b = load_weights<kType>(job.panel, i + 2, quarter + c);
      KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
        even[c][t] = vfmaq_laneq_f32(even[c][t], a.even, x[t], 0);
        odd[c][t] = vfmaq_laneq_f32(odd[c][t], a.odd, x[t], 1);
        even[c][t] = vfmaq_laneq_f32(even[c][t], b.even, x[t], 2);
        odd[c][t] = vfmaq_laneq_f32(odd[c][t], b.odd, x[t], 3);
      }
    }
  }
  KVICK_UNROLL for (int c = 0; c < kCount; ++c) {
    KVICK_UNROLL for (int t = 0; t < kTokens; ++t) {
      store_rows(job, t, quarter + c, vaddq_f32(even[c][t], odd[c][t]));
    }
  }
}

// -- functions

template <DType kType, int kTokens, int kCount>
KVICK_INLINE void quarters(const PanelJob& job, int quarter) {
  if constexpr (kPackFormats[static_cast<size_t>(kType)].quantised)
    quantised_quarters<kType, kTokens, kCount>(job, quarter);
  else
    float_quarters<kType, kTokens, kCount>(job, quarter);
}

// With one or two tokens, all quarters of a line are used while it is in cache. More tokens leave
// registers for only two quarters.
template <DType kType, int kTokens>
void panel(const PanelJob& job) {
  if constexpr (kTokens <= 2) {
    quarters<kType, kTokens, 4>(job, 0);
  } else {
    for (int quarter = 0; quarter < kQuarters; quarter += 2)
      quarters<kType, kTokens, 2>(job, quarter);
  }
}

template <DType kType, int... kTokens>
constexpr void add_format(PanelFunctions& functions) {
  ((functions.of[static_cast<int>(kType)][kTokens - 1] = panel<kernel_type(kType), kTokens>), ...);
}

template <int... kType>
constexpr PanelFunctions make_functions(std::integer_sequence<int, kType...>) {
  PanelFunctions functions{};
  (add_format<static_cast<DType>(kType), 1, 2, 4>(functions), ...);
  // Even and odd sums of 8 tokens in float formats would not stay in registers.
  ((kPackFormats[kType].quantised ? add_format<static_cast<DType>(kType), 8>(functions) : void()),
   ...);
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
