#pragma once
// For tests of the linear layers: random weights of a format, as in a file and packed.

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "kernels/formats/matrix.h"
#include "kernels/formats/test_blocks.h"

namespace kvick::kernels {

inline std::vector<float> random_values(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(random);
  return values;
}

struct Weights {
  Weights(DType type, uint32_t rows, uint32_t inputs, std::vector<std::byte> blocks)
      : source(std::move(blocks)), packed(make_matrix(type, rows, inputs)) {
    pack_panels(packed, source.data(), rows, 0, 0, packed.panels());
  }
  Weights(DType type, uint32_t rows, uint32_t inputs, uint64_t seed)
      : Weights(type, rows, inputs,
                make_blocks(type, size_t{rows} * inputs / dtype_info(type).block, seed)) {}
  std::vector<std::byte> source;
  Matrix packed;
};

}  // namespace kvick::kernels
