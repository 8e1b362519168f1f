#pragma once
// Keys and values may be stored as Hadamard transforms: a few large elements become many small
// ones, which suits a scale shared by a group of elements (Ashkboos et al. 2024, "QuaRot"). The
// transform is orthogonal: applied to both queries and keys it leaves their products unchanged; for
// values it is undone on the attention output. The model does the transform (model/blocks); stores
// keep rows as they are given (ADR 60).

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace kvick::kv {

struct Hadamard {
  bool k = false, v = false;  // k: keys and queries; v: values, undone on the attention output
  bool operator==(const Hadamard&) const = default;
};

// Block size of the transform in elements; 0: not transformed.
struct HadamardBlocks {
  uint32_t k = 0, v = 0;
};

// For values, llama.cpp found blocks of 64 better than a whole head of 128.
inline constexpr uint32_t kMostKeyBlock = 512, kMostValueBlock = 64;

// Returns the largest powers of two that divide the head dimension, up to the limits above. A
// latent row is both key and value, so both use the same block.
constexpr HadamardBlocks hadamard_blocks(Hadamard which, uint32_t k_dim, uint32_t v_dim,
                                         bool latent) {
  const auto block = [](uint32_t dims, uint32_t most) { return std::min(dims & -dims, most); };
  if (latent) {
    const uint32_t both = which.k ? block(std::gcd(k_dim, v_dim), kMostKeyBlock) : 0;
    return {both, both};
  }
  return {which.k ? block(k_dim, kMostKeyBlock) : 0, which.v ? block(v_dim, kMostValueBlock) : 0};
}

}  // namespace kvick::kv
