#pragma once
// GGML's Q8_0, blocks of 32 one-byte codes and a float16 scale, encoded without kvick's kernels.

#include <cstdint>
#include <string>

namespace kvick::train {

inline constexpr uint64_t kBlock = 32, kBlockBytes = 34;

// Returns the nearest float16, ties to even; values beyond its range become its largest.
uint16_t half_of(float value);
// elements: a multiple of kBlock.
std::string q8_0_blocks(const float* values, uint64_t elements);

}  // namespace kvick::train
