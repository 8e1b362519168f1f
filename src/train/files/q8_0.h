#pragma once
// GGML's blocks of 32 codes of a byte and a float16 scale, written without kvick's kernels.

#include <cstdint>
#include <string>

namespace kvick::train {

inline constexpr uint64_t kBlock = 32, kBlockBytes = 34;

// The nearest float16, of equally near ones the even; beyond its range its largest.
uint16_t half_of(float value);
// elements: a multiple of kBlock.
std::string q8_0_blocks(const float* values, uint64_t elements);

}  // namespace kvick::train
