#pragma once
// The right side of attention's products: floats in the first-level cache, or values as they lie in
// their rows. Included inside a target region.

namespace kvick::kernels {
namespace {

template <DType T>
inline constexpr uint32_t kElementBytes = T == DType::kF32       ? 4
                                          : T == DType::kStatic8 ? 1
                                                                 : 2;

// Vector r of row i of a block.
template <class V>
struct BlockOperand {
  using F = typename V::F;
  static constexpr bool kFromMemory = false;
  const float* at;
  uint32_t stride;
  F operator()(uint32_t i, int r) const { return V::load(at + i * stride + r * V::kLanes); }
  BlockOperand skip(uint32_t n) const { return {at + n * stride, stride}; }
  BlockOperand from_dim(uint32_t d) const { return {at + d, stride}; }
};

// Vector r of value i.
template <class V, DType T>
struct RowOperand {
  using F = typename V::F;
  static constexpr bool kFromMemory = true;
  const std::byte* const* rows;
  uint32_t dim;         // of the first lane
  const float* scales;  // of row 0, of quantised rows; `groups` from one row to the next
  uint32_t groups;
  float scale;  // of static rows
  F operator()(uint32_t i, int r) const {
    const uint32_t d = dim + r * V::kLanes;
    if constexpr (is_cache_code(T))
      return V::mul(V::template load_codes<T>(rows[i], d),
                    V::set(scales[i * groups + d / kRowGroup]));
    else
      return scaled(V::template load_row<T>(rows[i] + d * kElementBytes<T>));
  }
  // The n elements from d on, of rows that are not quantised in groups.
  F part(uint32_t i, uint32_t d, int n) const {
    return scaled(V::template load_row_part<T>(rows[i] + d * kElementBytes<T>, n));
  }
  RowOperand skip(uint32_t n) const {
    RowOperand rest = *this;
    rest.rows += n;
    if (scales != nullptr) rest.scales += n * groups;
    return rest;
  }
  RowOperand from_dim(uint32_t d) const {
    RowOperand rest = *this;
    rest.dim += d;
    return rest;
  }

 private:
  F scaled(F x) const {
    if constexpr (is_static(T)) return V::mul(x, V::set(scale));
    return x;
  }
};

// Elements d, d + 1, ... of a key of codes; static ones without their scale. Zero past the last
// one.
template <class V, DType T>
typename V::F key_floats(const std::byte* key, uint32_t d, uint32_t dims) {
  if constexpr (is_static(T))
    return d + V::kLanes <= dims ? V::template load_row<T>(key + d * kElementBytes<T>)
                                 : V::template load_row_part<T>(key + d * kElementBytes<T>,
                                                                static_cast<int>(dims - d));
  else
    return V::mul(V::template load_codes<T>(key, d),
                  V::set(V::half(key + code_bytes(T, dims) + d / kRowGroup * 2)));
}

}  // namespace
}  // namespace kvick::kernels
