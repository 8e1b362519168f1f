#pragma once
// The right operand of attention's products: floats in the first-level cache, or values as stored
// in rows. kAsks: the product prefetches rows (RowsAhead), which costs about 5 % if it has many
// queries. Included inside a target region.

namespace kvick::kernels {
namespace {

// Numbers stored with the codes of 32 elements: a scale, or a scale and a zero point.
template <DType T>
inline constexpr uint32_t kScales = T == DType::kKivi4V ? 2 : (is_cache_code(T) ? 1 : 0);
template <DType T>
inline constexpr uint32_t kElementBytes = T == DType::kF32       ? 4
                                          : T == DType::kStatic8 ? 1
                                                                 : 2;

// Operand (i, r) is vector r of row i of a block.
template <class V>
struct BlockOperand {
  using F = typename V::F;
  static constexpr bool kAsks = false;
  const float* at;
  uint32_t stride;
  F operator()(size_t i, int r) const { return V::load(at + i * stride + r * V::kLanes); }
  BlockOperand skip(uint32_t n) const { return {at + n * stride, stride}; }
  BlockOperand from_dim(uint32_t d) const { return {at + d, stride}; }
};

// Operand (i, r) is vector r of row i of the values, converted when it is loaded.
template <class V, DType T>
struct ValueRows {
  using F = typename V::F;
  static constexpr uint32_t kLanes = V::kLanes;
  static constexpr bool kAsks = true;
  static constexpr uint32_t kConvertWork = 2;  // cost per element, in multiply-adds: see RowsAhead
  const std::byte* const* rows;
  uint32_t dim;         // dimension of the first lane
  const float* scales;  // of quantised rows, from row 0 on, `in_row` floats per row
  uint32_t in_row;
  float scale;  // of static rows
  // Forced inline: a call spilled all accumulators of the tile to memory.
  [[gnu::always_inline]] inline F operator()(size_t i, int r) const {
    if constexpr (kScales<T> == 0) {
      return of_head(V::template load_row<T>(rows[i] + size_t{dim} * kElementBytes<T> +
                                             size_t{kLanes * kElementBytes<T>} * r));
    } else {
      // If a group is two vectors, tiles begin at a group, so a vector's place in its group is a
      // compile-time constant.
      constexpr uint32_t kVectors = kRowGroup / kLanes;
      const uint32_t vector = (kVectors == 2 ? 0 : dim % kRowGroup / kLanes) + r;
      const size_t first = dim / kRowGroup, group = vector / kVectors;  // its group is their sum
      const float* const of_row = scales + first * kScales<T> + i * in_row;
      const std::byte* const codes = rows[i] + first * code_bytes(T, kRowGroup);
      return scaled(codes + group * code_bytes(T, kRowGroup), vector % kVectors * kLanes,
                    of_row + group * kScales<T>);
    }
  }
  // Returns the n elements from d on, of rows without scales per group.
  F part(uint32_t i, uint32_t d, int n) const {
    return of_head(V::template load_row_part<T>(rows[i] + d * kElementBytes<T>, n));
  }
  [[gnu::always_inline]] inline F of_head(F x) const {
    if constexpr (is_static(T)) return V::mul(x, V::set(scale));
    return x;
  }
  [[gnu::always_inline]] static inline F scaled(const std::byte* group, uint32_t d,
                                                const float* scale) {
    if constexpr (T == DType::kKivi4V)
      return V::load_kivi(group, d, scale[0], scale[1]);
    else
      return V::mul(V::template load_codes<T>(group, d), V::set(*scale));
  }
  ValueRows skip(uint32_t n) const {
    ValueRows rest = *this;
    rest.rows += n;
    if (scales != nullptr) rest.scales += n * in_row;
    return rest;
  }
  ValueRows from_dim(uint32_t d) const {
    ValueRows rest = *this;
    rest.dim += d;
    return rest;
  }
};

// Returns elements d, d + 1, ... of a key, and zeros past the last. Static elements are not scaled.
template <class V, DType T>
typename V::F key_floats(const std::byte* key, uint32_t d, uint32_t dims) {
  if constexpr (is_cache_code(T))
    return V::mul(V::template load_codes<T>(key, d),
                  V::set(V::half(key + code_bytes(T, dims) + d / kRowGroup * 2)));
  else
    return d + V::kLanes <= dims ? V::template load_row<T>(key + d * kElementBytes<T>)
                                 : V::template load_row_part<T>(key + d * kElementBytes<T>,
                                                                static_cast<int>(dims - d));
}

}  // namespace
}  // namespace kvick::kernels
