#include "train/files/q8_0.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvick::train {

uint16_t half_of(float value) {
  constexpr float kLargest = 65504, kLeastNormal = 6.103515625e-05F;
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::min(std::fabs(value), kLargest);
  // Subnormal float16 numbers are multiples of 2^-24; std::nearbyint rounds ties to even.
  if (size < kLeastNormal)
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24F)));
  uint32_t bits;
  std::memcpy(&bits, &size, sizeof bits);
  bits += 0xfff + ((bits >> 13) & 1);
  return static_cast<uint16_t>(sign | ((bits >> 13) - (112 << 10)));
}

std::string q8_0_blocks(const float* values, uint64_t elements) {
  std::string out(elements / kBlock * kBlockBytes, '\0');
  for (uint64_t block = 0; block < elements / kBlock; ++block) {
    const float* x = values + block * kBlock;
    char* to = &out[block * kBlockBytes];
    float largest = 0;
    for (uint64_t i = 0; i < kBlock; ++i) largest = std::max(largest, std::fabs(x[i]));
    const uint16_t scale = half_of(largest / 127);
    const float inverse = scale != 0 ? 127 / largest : 0;
    std::memcpy(to, &scale, sizeof scale);
    for (uint64_t i = 0; i < kBlock; ++i)
      to[sizeof scale + i] = static_cast<char>(static_cast<int8_t>(std::lround(x[i] * inverse)));
  }
  return out;
}

}  // namespace kvick::train
