#pragma once
// Keys of kKivi4K as floats for the dot products. Included inside a target region.
//
// A key is code * scale + zero of its channel: the product is exact (4 and 11 bits), so that the
// sum is rounded once, with a fused operation or without, and all instruction sets multiply the
// numbers that the definition has. Keys are expanded, not multiplied as they lie: the scales would
// have to go into the query, which would become integers anew for every 32 rows, and that costs
// more than the products of two or three queries.

namespace kvick::kernels {
namespace {

template <class V>
struct KiviKeys {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr uint32_t kZeros = kMaxHeadDim;  // where in `scales` the zero points begin

  // The scales of a group's channels, and their zero points. pairs: scratch, dims * kKiviPairBytes.
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

  // The channels of one key.
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
