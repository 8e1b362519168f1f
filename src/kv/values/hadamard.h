#pragma once
// Rows that are Hadamard transforms of keys and values: a few large elements become many small
// ones, which suits a scale that a group of elements shares (Ashkboos et al. 2024, "QuaRot"). The
// transform is orthogonal: applied to both queries and keys it leaves their products unchanged; for
// values it is undone on the attention output. The model transforms (model/blocks), stores keep
// rows as they come (ADR 60).

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace kvick::kv {

struct Hadamard {
  bool k = false, v = false;  // keys, with the queries; values, with what attention gives
  bool operator==(const Hadamard&) const = default;
};

// Block size of the transform in elements; 0: not transformed.
struct HadamardBlocks {
  uint32_t k = 0, v = 0;
};

// For values, llama.cpp found blocks of 64 better than a whole head of 128.
inline constexpr uint32_t kMostKeyBlock = 512, kMostValueBlock = 64;

// The largest powers of two that divide the head dimension. A latent row is both key and value, so
// both use the same block.
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
