#pragma once
// Random weights with the same bits on every machine: computed in integers up to one last
// multiplication, without libm.

#include <cstdint>
#include <span>
#include <string_view>

namespace kvick::tools {

// splitmix64 (Steele, Lea, Flood 2014). Every seed is good, so every row may have its own.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// Returns the seed of one row of one tensor, so that rows can be made in any order and on any
// thread.
uint64_t row_seed(uint64_t seed, std::string_view tensor, uint64_t row);

// Fills `out` with nearly normal values (sums of four uniform ones) of mean 0 and standard
// deviation `sd`. Each group of 16 has its own factor between 0.25 and 1.75, so that the blocks of
// a quantised format have very different scales.
void random_row(uint64_t seed, float sd, std::span<float> out);

}  // namespace kvick::tools
