#pragma once
// Rows of kQ3 and kQ2 (cache_row.h), for any vector type of vec_*.h. Included inside a target
// region.

namespace kvick::kernels {
namespace {

// Returns 1 where x > limit, else 0. The factor makes every difference of floats of this size
// larger than 1.
template <class V>
typename V::F where_above(typename V::F x, typename V::F limit) {
  const auto large = V::mul(V::sub(x, limit), V::set(0x1p60F));
  return V::min(V::max(large, V::zero()), V::set(1));
}

// Finds the nearest levels of a group's elements t at this scale: magnitudes to `levels`, codes to
// `codes`.
template <class V, DType T>
void nearest_levels(const float* t, float scale, float* levels, float* codes) {
  constexpr LevelTable kTable = level_table(T);
  for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
    const auto x = V::load(t + i), size = V::max(x, V::sub(V::zero(), x));
    auto level = V::set(kTable.magnitude[0]), code = V::zero();
    for (int j = 1; j < kTable.magnitudes; ++j) {
      const auto above = where_above<V>(size, V::set(scale * kTable.middle(j)));
      level = V::fma(above, V::set(kTable.magnitude[j] - kTable.magnitude[j - 1]), level);
      code = V::add(code, above);
    }
    V::store(levels + i, level);
    const auto negative = where_above<V>(V::sub(V::zero(), x), V::zero());
    V::store(codes + i, V::fma(negative, V::set(kTable.magnitudes), code));
  }
}

// Returns the sum of |t| * |level|.
template <class V>
float level_product(const float* t, const float* levels) {
  auto sum = V::zero();
  for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
    const auto x = V::load(t + i), level = V::load(levels + i);
    sum = V::fma(V::max(x, V::sub(V::zero(), x)), V::max(level, V::sub(V::zero(), level)), sum);
  }
  return V::sum(sum);
}

template <class V, DType T>
void store_levels(const float* in, size_t n, std::byte* out) {
  std::byte* scales = out + code_bytes(T, n);
  for (size_t group = 0; group < n / kRowGroup; ++group) {
    const float* x = in + group * kRowGroup;
    auto most = V::zero(), not_finite = V::zero();
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
      const auto part = V::load(x + i);
      most = V::max(V::max(part, V::sub(V::zero(), part)), most);
      not_finite = V::fma(part, V::zero(), not_finite);
    }
    const float size = V::largest(most) + V::sum(not_finite);
    const float inverse = level_inverse(size);
    alignas(64) float t[kRowGroup], levels[kRowGroup], codes[kRowGroup];
    const auto shift = V::set(kRoundShift);
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes) {
      const auto scaled = inverse == 0 ? V::zero() : V::mul(V::load(x + i), V::set(inverse));
      V::store(t + i, V::sub(V::add(scaled, shift), shift));
    }
    float scale = first_level_scale(T, level_product<V>(t, t));
    for (int fit = 0; fit < kLevelFits; ++fit) {
      nearest_levels<V, T>(t, scale, levels, codes);
      scale = level_product<V>(t, levels) / level_product<V>(levels, levels);
    }
    nearest_levels<V, T>(t, scale, levels, codes);
    alignas(64) uint8_t bytes[kRowGroup];
    for (uint32_t i = 0; i < kRowGroup; i += V::kLanes)
      V::store_codes(bytes + i, V::load(codes + i), 0, 0, 7);
    pack_levels(T, bytes, out + group * code_bytes(T, kRowGroup));
    const uint16_t half = level_scale(scale, size);
    std::memcpy(scales + group * sizeof half, &half, sizeof half);
  }
}

}  // namespace
}  // namespace kvick::kernels
