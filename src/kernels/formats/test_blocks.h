#pragma once
// For tests of the linear layers: blocks of every format with finite contents.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "kernels/formats/dtype.h"

namespace kvick::kernels {

inline std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kWeightTypes; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

// Returns the number of inputs, rounded up to whole blocks.
inline uint32_t whole_blocks(DType type, uint32_t inputs) {
  const uint32_t block = dtype_info(type).block;
  return (inputs + block - 1) / block * block;
}

// Returns the offsets of the float16 (or bfloat16) fields of a block.
inline std::initializer_list<size_t> half_fields(DType type) {
  static constexpr std::initializer_list<size_t> kNone = {}, kFirst = {0}, kTwo = {0, 2},
                                                 kQ2 = {80, 82}, kQ3 = {108}, kQ6 = {208},
                                                 kTq1 = {52}, kTq2 = {64};
  switch (type) {
    case DType::kF32:
    case DType::kMXFP4:
    case DType::kNVFP4:
    case DType::kIQ1_M:
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
    case DType::kTQ1_0:
      return kTq1;
    case DType::kTQ2_0:
      return kTq2;
    default:
      return kFirst;
  }
}

// Makes the scales of a block finite and below 1, as dequant_reference.py does.
inline void tame(DType type, std::byte* block) {
  for (const size_t field : half_fields(type)) block[field + 1] &= std::byte{0xbb};
  if (type == DType::kF32) block[3] &= std::byte{0xbb};
  if (type == DType::kMXFP4) block[0] &= std::byte{0x7f};
  if (type == DType::kIQ1_M) {  // the high halves of a float16 that is spread over four bytes
    block[53] &= std::byte{0xbf};
    block[55] &= std::byte{0xbf};
  }
}

// Makes every float scale of a block 1 (2 for the halves of NVFP4).
inline void scale_with_one(DType type, std::byte* block) {
  for (const size_t field : half_fields(type)) {
    block[field] = std::byte{0};
    block[field + 1] = std::byte{0x3c};
  }
  if (type == DType::kMXFP4) block[0] = std::byte{128};
  if (type == DType::kNVFP4)
    for (size_t i = 0; i < 4; ++i) block[i] = std::byte{0x40};
  if (type == DType::kIQ1_M)
    for (const auto& [at, bits] : {std::pair{49, 0x00}, {51, 0x00}, {53, 0xc0}, {55, 0x30}})
      block[at] = (block[at] & std::byte{0x0f}) | static_cast<std::byte>(bits);
}

// Returns blocks of pseudo-random bytes, with finite scales below 1.
inline std::vector<std::byte> make_blocks(DType type, size_t blocks, uint64_t seed) {
  const size_t size = dtype_info(type).block_bytes;
  std::vector<std::byte> out(blocks * size);
  uint64_t state = seed;
  for (std::byte& byte : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  for (size_t b = 0; b < blocks; ++b) tame(type, out.data() + b * size);
  return out;
}

}  // namespace kvick::kernels
