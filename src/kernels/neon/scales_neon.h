#pragma once
// Internal to kernels/: the scales of a packed panel (pack.h) with NEON, of 4 rows at a time.
// Included inside a target region after codes_neon.h.

namespace kvick::kernels {
namespace {

// Scales (and mins) of a group for 4 rows: one of each, or one per half of the inputs.
struct Scales {
  float32x4_t scale[2], min[2];
};

KVICK_INLINE float32x4_t load_half(const std::byte* in) {
  const uint16x4_t half = vreinterpret_u16_u8(vld1_u8(reinterpret_cast<const uint8_t*>(in)));
  return vcvt_f32_f16(vreinterpret_f16_u16(half));
}
// Loads four bytes into the low lanes.
KVICK_INLINE uint8x8_t load_four(const std::byte* in) {
  uint32_t four;
  __builtin_memcpy(&four, in, sizeof four);
  return vreinterpret_u8_u32(vdup_n_u32(four));
}
KVICK_INLINE int32x4_t widened(uint8x8_t bytes) {
  return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(bytes))));
}
KVICK_INLINE float32x4_t bytes_to_f32(uint8x8_t bytes) { return vcvtq_f32_s32(widened(bytes)); }

// Returns 2^byte, which is subnormal for the smallest two exponents.
KVICK_INLINE float32x4_t exponents_to_f32(uint8x8_t bytes) {
  const int32x4_t exponent = vaddq_s32(widened(bytes), vdupq_n_s32(127));
  const uint32x4_t normal = vreinterpretq_u32_s32(vshlq_n_s32(exponent, 23));
  const uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x00400000), exponent);  // < 0: shifts right
  const uint32x4_t small = vcltq_s32(exponent, vdupq_n_s32(1));
  return vreinterpretq_f32_u32(vbslq_u32(small, subnormal, normal));
}
// See scales_avx512.h.
KVICK_INLINE float32x4_t e4m3_to_f32(uint8x8_t bytes, float unit) {
  const uint16x4_t half = vshl_n_u16(vget_low_u16(vmovl_u8(bytes)), 7);
  return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(half)), 256 * unit);
}

// Loads the scale and min that a block has for all of its groups (256 inputs).
template <DType kType>
KVICK_INLINE Scales load_super(const std::byte* block, int quarter) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  Scales s{};
  if constexpr (has_super(f)) {
    s.scale[0] = load_half(block + quarter * 8);
    if constexpr (f.unit != 1) s.scale[0] = vmulq_n_f32(s.scale[0], f.unit);
    if constexpr (f.has_min) s.min[0] = load_half(block + kHalfRow + quarter * 8);
  }
  return s;
}

template <DType kType>
KVICK_INLINE Scales load_scales(const std::byte* block, const Scales& super, uint32_t group,
                                int quarter) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  Scales s{};
  const std::byte* const sub = block + sub_offset(f, group) + quarter * kLanes;
  if constexpr (f.scales == ScaleKind::kE8M0) {
    s.scale[0] = exponents_to_f32(load_four(sub));
  } else if constexpr (f.scales == ScaleKind::kE4M3) {
    s.scale[0] = e4m3_to_f32(load_four(sub), f.unit);
    s.scale[1] = e4m3_to_f32(load_four(sub + kPanel), f.unit);
  } else if constexpr (f.scales == ScaleKind::kHalves) {
    s.scale[0] = load_half(block + group * kHalfRow + quarter * 8);
    if constexpr (f.has_min) s.min[0] = load_half(block + kLine + group * kHalfRow + quarter * 8);
  } else if constexpr (f.scales == ScaleKind::kHalf256) {
    s.scale[0] = super.scale[0];
  } else if constexpr (f.scale_group == 32) {
    s.scale[0] = vmulq_f32(super.scale[0], bytes_to_f32(load_four(sub)));
    if constexpr (f.has_min)
      s.min[0] = vmulq_f32(super.min[0], bytes_to_f32(load_four(sub + kPanel)));
  } else {
    for (int h = 0; h < 2; ++h) {
      const uint8x8_t both = load_four(sub + h * int{kPanel});
      if constexpr (f.has_min) {
        const uint8x8_t low = vand_u8(both, vdup_n_u8(15));
        s.scale[h] = vmulq_f32(super.scale[0], bytes_to_f32(low));
        s.min[h] = vmulq_f32(super.min[0], bytes_to_f32(vshr_n_u8(both, 4)));
      } else {
        s.scale[h] = vmulq_f32(super.scale[0], bytes_to_f32(both));
      }
    }
  }
  return s;
}

}  // namespace
}  // namespace kvick::kernels
