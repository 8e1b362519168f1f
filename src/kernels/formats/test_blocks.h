#pragma once
// For tests of the linear layers: blocks of every format with finite contents.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kWeightTypes; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

// Where the float16 (or bfloat16) fields of a block are.
inline std::initializer_list<size_t> half_fields(DType type) {
  static constexpr std::initializer_list<size_t> kNone = {}, kFirst = {0}, kTwo = {0, 2},
                                                 kQ2 = {80, 82}, kQ3 = {108}, kQ6 = {208};
  switch (type) {
    case DType::kF32:
      return kNone;
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K:
      return kTwo;
    case DType::kQ2_K:
      return kQ2;
    case DType::kQ3_K:
      return kQ3;
    case DType::kQ6_K:
      return kQ6;
    default:
      return kFirst;
  }
}

// Blocks of pseudo-random bytes, the float16 fields made finite and below 1 (dequant_reference.py
// does the same).
inline std::vector<std::byte> make_blocks(DType type, size_t blocks, uint64_t seed) {
  const size_t size = dtype_info(type).block_bytes;
  std::vector<std::byte> out(blocks * size);
  uint64_t state = seed;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  for (size_t b = 0; b < blocks; ++b) {
    for (const size_t field : half_fields(type)) out[b * size + field + 1] &= std::byte{0xbb};
    if (type == DType::kF32) out[b * size + 3] &= std::byte{0xbb};
  }
  return out;
}

}  // namespace kvick::kernels
