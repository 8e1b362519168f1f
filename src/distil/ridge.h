#pragma once
// Least squares with a small penalty: weights by which inputs come closest to some targets, found
// from sums over samples that come one after the other.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::distil {

class Ridge {
 public:
  Ridge(uint32_t inputs, uint32_t targets);

  // Memory of one, in bytes.
  static uint64_t bytes(uint32_t inputs, uint32_t targets);

  // `samples` of inputs, x [samples][inputs] x_stride floats apart, beside which there is a
  // constant 1; y: [samples][targets].
  void add(const kernels::Table& kernels, const float* x, size_t x_stride, const float* y,
           size_t samples);

  // [targets][inputs + 1], the constant's weight last: those that minimise the sum of squared
  // errors and, for each weight, its square times `penalty` of the inputs' mean square. Once: the
  // sums are used up. Zeros if there were no samples.
  std::vector<float> solve(double penalty);

 private:
  size_t at(size_t i, size_t j) const { return i * (i + 1) / 2 + j; }  // j <= i

  uint32_t inputs_, targets_;    // the constant included
  std::vector<double> square_;   // sums of products of inputs, the lower half by rows
  std::vector<double> product_;  // [targets][inputs]
  std::vector<float> row_;
};

}  // namespace kvick::distil
