#pragma once
// Internal to kernels/: the values that codes of 4 and 3 bits stand for. The numbers are those of
// llama.cpp's ggml-common.h, some in another unit (PackFormat::unit).

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace kvick::kernels {

// The values of codes as unsigned integers u = value + zero, which dot products take. Kernels load
// u as a vector.
struct alignas(16) Codebook {
  uint8_t u[16] = {};
  uint8_t value_bits = 0;
  int16_t zero = 0;

  constexpr explicit Codebook(const std::array<int8_t, 16>& values) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    value_bits = static_cast<uint8_t>(std::bit_width(static_cast<unsigned>(*high - *low)));
    // Dot products make u of 8 bits signed again (dots_avx512.h).
    zero = static_cast<int16_t>(value_bits == 8 ? 128 : -*low);
    for (size_t i = 0; i < values.size(); ++i) u[i] = static_cast<uint8_t>(values[i] + zero);
  }
};

// Returns the values of codes of `bits` bits, whose highest bit is the sign.
constexpr std::array<int8_t, 16> with_signs(const std::array<int8_t, 8>& magnitudes, int bits) {
  std::array<int8_t, 16> values{};
  const size_t half = size_t{1} << (bits - 1);
  for (size_t i = 0; i < half; ++i) {
    values[i] = magnitudes[i];
    values[half + i] = static_cast<int8_t>(-magnitudes[i]);
  }
  return values;
}

// IQ4_NL, IQ4_XS.
inline constexpr Codebook kNonlinear4{
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}};
// MXFP4, NVFP4: twice the values of a float of two bits of exponent and one of significand.
inline constexpr Codebook kFloat4{with_signs({0, 1, 2, 3, 4, 6, 8, 12}, 4)};
// IQ3_S.
inline constexpr Codebook kOdd4{with_signs({1, 3, 5, 7, 9, 11, 13, 15}, 4)};
// IQ3_XXS: half of the file's magnitudes.
inline constexpr Codebook kGrid4{with_signs({2, 6, 10, 14, 18, 22, 26, 31}, 4)};
// IQ2_S, IQ2_XS, IQ2_XXS.
inline constexpr Codebook kGrid3{with_signs({8, 25, 43}, 3)};
// IQ1_S, IQ1_M, in eighths: -1, 0 or 1, plus an eighth, or minus an eighth if the highest bit is
// set.
inline constexpr Codebook kTernary3{{-7, 1, 9, 0, -9, -1, 7, 0}};

}  // namespace kvick::kernels
