#pragma once
// Random numbers without a generator's state, so that a batch depends only on its number.

#include <cstdint>

namespace kvick::train {

// Returns splitmix64 of a pair of numbers.
inline uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t z = a * 0xbf58476d1ce4e5b9 + b + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace kvick::train
