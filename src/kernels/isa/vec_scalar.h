#pragma once
// One float as a vector of one lane: attention_impl.h and elementwise_impl.h are compiled with it
// for machines without AVX2. There is no fused multiply-add, because std::fma without the
// instruction is a call of a hundred cycles.

#include <cmath>
#include <cstring>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {
namespace {

struct VecScalar {
  using F = float;
  static constexpr int kLanes = 1;
  static constexpr int kTile = 4;           // queries of one register tile
  static constexpr int kAccumulators = 8;   // of one register tile
  static constexpr bool kCodeDots = false;  // products of codes as integers

  static F zero() { return 0; }
  static F set(float x) { return x; }
  static F load(const float* p) { return *p; }
  static F load_part(const float* p, int) { return *p; }
  static void store(float* p, F x) { *p = x; }
  static void store_part(float* p, F x, int) { *p = x; }
  static F add(F a, F b) { return a + b; }
  static F sub(F a, F b) { return a - b; }
  static F mul(F a, F b) { return a * b; }
  static F div(F a, F b) { return a / b; }
  static F max(F a, F b) { return a > b ? a : b; }
  static F min(F a, F b) { return a < b ? a : b; }
  static F fma(F a, F b, F c) { return a * b + c; }   // a*b + c
  static F nfma(F a, F b, F c) { return c - a * b; }  // c - a*b
  static float sum(F x) { return x; }
  static float largest(F x) { return x; }
  static F exp(F x) { return x < -87.336F ? 0.0F : std::exp(x); }
  // Adds 1 to each lane of sum whose x is above the limit.
  static F count_above(F sum, F x, F limit) { return sum + (x > limit ? 1.0F : 0.0F); }
  // Writes the indices of lanes above the limit (the first lane's is `first`) to out, which has
  // room for exactly those. Returns how many there are.
  static uint32_t indices_above(F x, F limit, uint32_t first, uint32_t* out) {
    if (!(x > limit)) return 0;
    *out = first;
    return 1;
  }

  template <DType T>
  static F load_row(const std::byte* p) {
    if constexpr (T == DType::kF32) {
      float x;
      std::memcpy(&x, p, sizeof x);
      return x;
    } else if constexpr (T == DType::kStatic8) {
      return static_cast<int8_t>(*p);
    } else {
      uint16_t half;
      std::memcpy(&half, p, sizeof half);
      if constexpr (T == DType::kStatic16) return static_cast<int16_t>(half);
      return T == DType::kF16 ? f16_to_f32(half) : bf16_to_f32(half);
    }
  }
  template <DType T>
  static F load_row_part(const std::byte* p, int) {
    return load_row<T>(p);
  }
  template <DType T>
  static void store_row(std::byte* p, F x) {
    if constexpr (T == DType::kStatic16) {
      const auto code = static_cast<int16_t>(std::nearbyint(x));
      std::memcpy(p, &code, sizeof code);
    } else {
      const uint16_t half = T == DType::kF16 ? f32_to_f16(x) : f32_to_bf16(x);
      std::memcpy(p, &half, sizeof half);
    }
  }
  // Stores lanes as bytes: rounded to nearest even, plus middle, clamped to [low, high].
  static void store_codes(uint8_t* p, F x, int middle, int low, int high) {
    const int code = static_cast<int>(std::nearbyint(x)) + middle;
    *p = static_cast<uint8_t>(code < low ? low : code > high ? high : code);
  }
  // Returns codes d, d + 1, ... of a cache row, minus their middle.
  template <DType T>
  static F load_codes(const std::byte* row, uint32_t d) {
    if constexpr (T == DType::kQ8) return static_cast<int8_t>(row[d]);
    if constexpr (is_level_code(T)) return level<T>(row + d / 32 * code_bytes(T, 32), d % 32);
    const auto pair = static_cast<uint8_t>(row[d / 32 * 16 + d % 16]);
    const int code = d % 32 < 16 ? pair & 15 : pair >> 4;
    return static_cast<float>(T == DType::kQ4 ? code - code_range(T).middle : code);
  }
  // Returns the level of code d of a group.
  template <DType T>
  static F level(const std::byte* group, uint32_t d) {
    constexpr LevelTable kTable = level_table(T);
    int code = static_cast<uint8_t>(group[d / 4]) >> d % 4 * 2 & 3;
    if constexpr (T == DType::kQ3)
      code |= (static_cast<uint8_t>(group[8 + d / 8]) >> d % 8 & 1) << 2;
    const float magnitude = kTable.magnitude[code % kTable.magnitudes];
    return code < kTable.magnitudes ? magnitude : -magnitude;
  }
  // Returns values d, d + 1, ... of a row of kKivi4V.
  static F load_kivi(const std::byte* row, uint32_t d, float scale, float zero) {
    return fma(load_codes<DType::kKivi4V>(row, d), scale, zero);
  }
  static float half(const std::byte* p) { return load_row<DType::kF16>(p); }
  static constexpr uint32_t kChains = 1;
  static constexpr uint32_t kDotQueries = 4;
  static constexpr uint32_t kDotSums = 16;  // sums that are added to at the same time
  static F load_query(const float* p) { return *p; }
  template <DType T>
  static F load_keys(const std::byte* a, const std::byte*) {
    return load_row<T>(a);
  }
  static F fold(const F (&x)[1]) { return x[0]; }
  static F fold_rest(const F (&x)[1]) { return x[0]; }
  // to[d * stride] = float d of the row, for four floats.
  template <class Rows>
  static void transpose(const Rows& rows, size_t offset, float* to, size_t stride) {
    for (size_t i = 0; i < 4; ++i) to[i * stride] = load_row<DType::kF32>(rows[0] + offset + i * 4);
  }
  static void split_pairs(F a, F b, F& even, F& odd) { even = a, odd = b; }
  static void join_pairs(F even, F odd, F& a, F& b) { a = even, b = odd; }
};

}  // namespace
}  // namespace kvick::kernels
