#pragma once
// Internal to kernels/: rows of kKivi4K and kKivi4V, asymmetric codes after "KIVI: A Tuning-Free
// Asymmetric 2bit Quantization for KV Cache" (equation 1): 32 numbers share a scale and a zero
// point, code = round((x - zero) / scale), here with 4 bits and both as float16. For values these
// are 32 channels of one token; for keys 32 tokens of one channel, because a few channels of keys
// are large in all tokens.
//
// A row of n elements is n codes in the layout of kQ4, then n/32 pairs of scale and zero point. For
// values these are the pairs of the row's own groups; for keys, row i of the 32 has the pairs of
// channels [i * n/32, (i + 1) * n/32). So a row has a fixed size, and the rows of one group may be
// anywhere.

#include <cstddef>
#include <cstdint>

#include "kernels/formats/cache_row.h"
#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline constexpr float kKiviMost = 15;       // the largest code
inline constexpr size_t kKiviPairBytes = 4;  // scale, then zero point

// How 32 numbers between least and most become codes: (x - zero) * inverse, clamped to [0,
// kKiviMost], rounded to nearest even. The scale is NaN if float16 cannot hold it or the zero
// point.
struct KiviScale {
  uint16_t halves[2];  // scale and zero point, as stored
  float zero, inverse;
};
KiviScale kivi_scale(float least, float most);

// The definitions: to_f32 and from_f32 of kKivi4V, group_to_f32 and group_from_f32 of kKivi4K.
void kivi_row_to_f32(const std::byte* in, size_t n, float* out);
void kivi_row_from_f32(const float* in, size_t n, std::byte* out);

}  // namespace kvick::kernels
