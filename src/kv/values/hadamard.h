#pragma once
// Rows that are Hadamard transforms of keys and values: a few large elements become many small
// ones, which suits a scale that a group of elements shares (Ashkboos et al. 2024, "QuaRot"). The
// transform is orthogonal: of queries and keys alike it changes no product, and of values it is
// taken back from what attention sums up. The model transforms (model/blocks), stores keep rows as
// they come (ADR 60).

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace kvick::kv {

struct Hadamard {
  bool k = false, v = false;  // keys, with the queries; values, with what attention gives
  bool operator==(const Hadamard&) const = default;
};

// Elements that are transformed together; 0: none are.
struct HadamardBlocks {
  uint32_t k = 0, v = 0;
};

// llama.cpp found values better with 64 than with a head of 128.
inline constexpr uint32_t kMostKeyBlock = 512, kMostValueBlock = 64;

// The largest powers of two that divide a head. Latent rows are keys and values in one: so are
// their blocks.
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
