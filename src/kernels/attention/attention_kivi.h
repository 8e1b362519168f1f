#pragma once
// Expands keys of kKivi4K to floats for the dot products. Included inside a target region.
//
// An element is code * scale + zero, with the scale and zero point of its channel. The product is
// exact (4 and 11 bits), so the sum is rounded once, with or without fma, and all instruction sets
// multiply the same numbers as the definition. Keys are not multiplied as stored, because the
// scales would have to go into the query, which would be rounded to integers anew for every 32
// rows. That costs more than the products of two or three queries.

namespace kvick::kernels {
namespace {

template <class V>
struct KiviKeys {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kZeros = kMaxHeadDim;  // index in `scales` of the first zero point

  // Loads the scales and zero points of a group's channels. pairs: scratch of dims * kKiviPairBytes
  // bytes.
  static void load_scales(const std::byte* const* group, uint32_t dims, std::byte* pairs,
                          float* scales) {
    const uint32_t bytes = dims / kRowGroup * kKiviPairBytes;
    for (uint32_t i = 0; i < kRowGroup; ++i) {
      const std::byte* const from = group[i] + dims / 2;
      if (bytes == 8)  // 64 channels
        __builtin_memcpy(pairs + i * 8, from, 8);
      else
        for (uint32_t at = 0; at < bytes; at += 4)
          __builtin_memcpy(pairs + i * bytes + at, from + at, 4);
    }
    if constexpr (V::kCodeDots) {
      for (uint32_t d = 0; d < dims; d += kLanes)
        for (uint32_t which = 0; which < 2; ++which)
          V::store(scales + which * kZeros + d, V::half_of_pairs(pairs + d * 4, which));
    } else {
      for (uint32_t d = 0; d < dims; ++d)
        for (uint32_t which = 0; which < 2; ++which)
          scales[which * kZeros + d] = V::half(pairs + d * 4 + which * 2);
    }
  }

  // Expands one key to `to`, [dims].
  static void expand(const std::byte* key, uint32_t dims, const float* scales, float* to) {
    for (uint32_t g = 0; g < dims; g += kRowGroup)
      KVICK_UNROLL for (uint32_t i = 0; i < kRowGroup; i += kLanes) {
        const uint32_t d = g + i;
        V::store(to + d, V::fma(V::template load_codes<DType::kKivi4K>(key + g / 2, i),
                                V::load(scales + d), V::load(scales + kZeros + d)));
      }
  }
};

}  // namespace
}  // namespace kvick::kernels
