#pragma once
// Ridge regression: least squares with a small penalty, solved from sums over samples that are
// added one batch after the other.

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::distil {

class Ridge {
 public:
  Ridge(uint32_t inputs, uint32_t targets);

  // Bytes of memory that one Ridge takes.
  static uint64_t bytes(uint32_t inputs, uint32_t targets);

  // Adds samples. x: [samples][inputs], rows x_stride floats apart; a constant input 1 is appended.
  // y: [samples][targets].
  void add(const kernels::Table& kernels, const float* x, size_t x_stride, const float* y,
           size_t samples);

  // Returns the weights [targets][inputs + 1], the constant's last, that minimise the squared error
  // plus each weight's square times `penalty` times the mean square of the inputs; zeros if there
  // were no samples. Consumes the sums, so call it once.
  std::vector<float> solve(double penalty);

 private:
  size_t at(size_t i, size_t j) const { return i * (i + 1) / 2 + j; }  // j <= i

  uint32_t inputs_, targets_;    // the constant included
  std::vector<double> square_;   // sums of products of inputs, the lower half by rows
  std::vector<double> product_;  // [targets][inputs]
  std::vector<float> row_;
};

}  // namespace kvick::distil
