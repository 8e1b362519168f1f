#pragma once
// How packed weights of each type are stored. matrix.h says why.

#include <cstdint>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

// How the scales of a format are stored.
enum class ScaleKind : uint8_t {
  kHalves,     // float16 per 32 inputs, for scale and min
  kTwoLevels,  // scale (and min) = byte per scale_group * float16 per 256 inputs
  kHalf256,    // float16 per 256 inputs
  kE8M0,       // a byte per 32 inputs, with sign: 2^byte
  kE4M3,       // a byte per 16 inputs: a float without sign, 4 bits of exponent, 3 of significand
};

struct Codebook;  // codebooks.h

// How packed weights of one DType are stored.
struct PackFormat {
  bool quantised;       // false: F32/F16/BF16, the fields below are unused
  uint8_t bits;         // bits of a stored code: 2, 3, 4, 5, 6 or 8
  uint8_t scale_group;  // inputs that share one scale: 16 or 32
  bool has_min;
  ScaleKind scales;
  int16_t zero;
  uint8_t value_bits = bits;           // u is less than 2^value_bits
  const Codebook* codebook = nullptr;  // null: stored codes are u
  float unit = 1;                      // power of two, a factor of float16 and E4M3 scales

  bool operator==(const PackFormat&) const = default;
};
const PackFormat& pack_format(DType type);

}  // namespace kvick::kernels
