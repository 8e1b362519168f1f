#pragma once
// Arithmetic on sizes that a planner may ask for: saturates at 2^64 - 1 instead of wrapping around.

#include <cstdint>

namespace kvick::kv {

inline uint64_t saturating_mul(uint64_t a, uint64_t b) {
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

inline uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

}  // namespace kvick::kv
