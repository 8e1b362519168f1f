#pragma once
// Internal to kernels/: the codes of a packed panel (pack.h) with NEON, a quarter of 4 rows at a
// time. Included inside a target region after dots_neon.h or dots_i8mm.h.

namespace kvick::kernels {
namespace {

constexpr int kLanes = 4;     // rows of a vector
constexpr int kQuarters = 4;  // of a panel
constexpr int kQuarterLine = static_cast<int>(kLine) / kQuarters;

template <int kBy>
KVICK_INLINE uint8x16_t shifted_right(uint8x16_t in) {
  if constexpr (kBy > 0) return vshrq_n_u8(in, kBy);
  if constexpr (kBy < 0) return vshlq_n_u8(in, -kBy);
  return in;
}
// Returns the kKept low bits of `low`, and above them bits [kFrom, ...) of `high`.
template <int kFrom, int kKept>
KVICK_INLINE uint8x16_t above(uint8x16_t low, uint8x16_t high) {
  return vsliq_n_u8(low, shifted_right<kFrom>(high), kKept);
}
// Returns the 4 high bits of `low`, shifted down, and above them bits [kFrom, ...) of `high`.
template <int kFrom>
KVICK_INLINE uint8x16_t above_high_nibble(uint8x16_t low, uint8x16_t high) {
  return vsriq_n_u8(shifted_right<kFrom - 4>(high), low, 4);
}
template <int kMask>
KVICK_INLINE uint8x16_t masked(uint8x16_t in) {
  return vandq_u8(in, vdupq_n_u8(kMask));
}

// Returns register kJ of the codes of 4 rows. lines: the lines of the planes.
template <int kBits, int kJ>
KVICK_INLINE uint8x16_t code_register(const uint8x16_t* lines) {
  if constexpr (kBits == 8) {
    return lines[kJ];
  } else if constexpr (kBits < 4) {
    const uint8x16_t low = shifted_right<kJ % 4 * 2>(lines[kJ / 4]);
    if constexpr (kBits == 3) return masked<7>(above<kJ, 2>(low, lines[2]));
    return kJ % 4 == 3 ? low : masked<3>(low);
  } else if constexpr (kBits == 4) {
    return kJ < 4 ? masked<15>(lines[kJ % 4]) : shifted_right<4>(lines[kJ % 4]);
  } else {
    constexpr int kFrom = kBits == 5 ? kJ : kJ % 4 * 2;
    const uint8x16_t high = lines[kBits == 5 ? 4 : 4 + kJ / 4];
    constexpr int kMask = (1 << kBits) - 1;
    if constexpr (kJ < 4) return masked<kMask>(above<kFrom, 4>(lines[kJ % 4], high));
    return masked<kMask>(above_high_nibble<kFrom>(lines[kJ % 4], high));
  }
}

// Loads the values of 4 rows of a group as dot_products() takes them. planes: from this quarter on.
template <DType kType, int... kJ>
KVICK_INLINE void load_values(const std::byte* planes, uint8x16_t* w,
                              std::integer_sequence<int, kJ...>) {
  constexpr PackFormat f = kPackFormats[static_cast<size_t>(kType)];
  uint8x16_t lines[f.bits];
  KVICK_UNROLL for (int i = 0; i < f.bits; ++i) {
    lines[i] = vld1q_u8(reinterpret_cast<const uint8_t*>(planes) + i * static_cast<int>(kLine));
  }
  if constexpr (f.codebook == nullptr) {
    ((w[kJ] = dot_codes<f.value_bits>(code_register<f.bits, kJ>(lines))), ...);
  } else {
    const uint8x16_t table = dot_codes<f.value_bits>(vld1q_u8(f.codebook->u));
    ((w[kJ] = vqtbl1q_u8(table, code_register<f.bits, kJ>(lines))), ...);
  }
}

}  // namespace
}  // namespace kvick::kernels
