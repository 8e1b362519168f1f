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
  // Rows that are expanded at a time: a group, or as many as a block of keys holds.
  static constexpr uint32_t kRows = 4 * kLanes < kRowGroup ? 4 * kLanes : kRowGroup;
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

  // Channels [32 g, 32 g + 32) of kRows keys: channel d of key i to to[d * stride + i].
  static void expand(const std::byte* const* keys, uint32_t g, const float* scales, float* to,
                     size_t stride) {
    if constexpr (V::kCodeDots)
      look_up(keys, g, scales, to, stride);
    else
      convert(keys, g, scales, to, stride);
  }

 private:
  // 16 rows a vector, for each channel the 16 numbers that its codes stand for: one shuffle a
  // vector, where taking the codes apart and scaling them is three operations.
  static void look_up(const std::byte* const* keys, uint32_t g, const float* scales, float* to,
                      size_t stride) {
    alignas(64) float codes[2][4 * kLanes];  // four bytes of each row, transposed
    for (int half = 0; half < 2; ++half)
      V::template transpose_keys<DType::kF32, 1>(keys + half * kLanes, g * 16, codes[half], kLanes);
    for (uint32_t line = 0; line < 4; ++line) {
      auto low = V::load_int(codes[0] + line * kLanes),
           high = V::load_int(codes[1] + line * kLanes);
      KVICK_UNROLL for (uint32_t i = 0; i < 8; ++i) {
        // A byte has a channel of the group's first half, and behind it one of the second.
        const uint32_t d = g * kRowGroup + i % 2 * 16 + line * 4 + i / 2;
        const F numbers = V::code_numbers(scales[d], scales[kZeros + d]);
        V::store(to + d * stride, V::pick(low, numbers));
        V::store(to + d * stride + kLanes, V::pick(high, numbers));
        low = V::next_codes(low), high = V::next_codes(high);
      }
    }
  }

  static void convert(const std::byte* const* keys, uint32_t g, const float* scales, float* to,
                      size_t stride) {
    constexpr uint32_t kTransposed = V::template kKeyRows<DType::kF32>;
    constexpr uint32_t kDims = V::template kKeyDims<DType::kF32>;
    alignas(64) float rows[kTransposed * kRowGroup];
    const std::byte* from[kTransposed];
    for (uint32_t l = 0; l < kTransposed; ++l)
      from[l] = reinterpret_cast<const std::byte*>(rows + l * kRowGroup);
    for (uint32_t i = 0; i < kRows; i += kTransposed) {
      for (uint32_t l = 0; l < kTransposed; ++l)
        for (uint32_t at = 0; at < kRowGroup; at += kLanes) {
          const uint32_t d = g * kRowGroup + at;
          V::store(rows + l * kRowGroup + at,
                   V::fma(V::template load_codes<DType::kKivi4K>(keys[i + l], d),
                          V::load(scales + d), V::load(scales + kZeros + d)));
        }
      for (uint32_t at = 0; at < kRowGroup; at += kDims)
        V::template transpose_keys<DType::kF32, 1>(from, at * sizeof(float),
                                                   to + (g * kRowGroup + at) * stride + i, stride);
    }
  }
};

}  // namespace
}  // namespace kvick::kernels
