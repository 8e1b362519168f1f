#include "distil/ridge.h"

#include <algorithm>
#include <cmath>

namespace kvick::distil {
namespace {

constexpr size_t kTogether = 64;  // samples that are summed in float, then added in double

double dot(const double* x, const double* y, size_t n) {
  constexpr size_t kSums = 8;
  double sums[kSums] = {};
  size_t i = 0;
  for (; i + kSums <= n; i += kSums)
    for (size_t s = 0; s < kSums; ++s) sums[s] += x[i + s] * y[i + s];
  double sum = 0;
  for (const double one : sums) sum += one;
  for (; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

}  // namespace

Ridge::Ridge(uint32_t inputs, uint32_t targets)
    : inputs_(inputs + 1),
      targets_(targets),
      square_(at(inputs_, 0)),
      product_(size_t{targets} * inputs_),
      row_(inputs_) {}

uint64_t Ridge::bytes(uint32_t inputs, uint32_t targets) {
  const uint64_t n = uint64_t{inputs} + 1;
  return sizeof(double) * (n * (n + 1) / 2 + targets * n);
}

void Ridge::add(const kernels::Table& kernels, const float* x, size_t x_stride, const float* y,
                size_t samples) {
  const size_t constant = inputs_ - 1;
  for (size_t first = 0; first < samples; first += kTogether) {
    const size_t n = std::min(kTogether, samples - first);
    const float* const some = x + first * x_stride;
    const auto put = [&](double* to, size_t count) {
      for (size_t j = 0; j < count; ++j) to[j] += row_[j];
    };
    for (size_t i = 0; i < constant; ++i) {
      std::fill_n(row_.begin(), i + 1, 0.0F);
      for (size_t s = 0; s < n; ++s)
        kernels.axpy(row_.data(), some[s * x_stride + i], some + s * x_stride, i + 1);
      put(&square_[at(i, 0)], i + 1);
    }
    const auto sums = [&](const auto& weight_of, double* to) {
      std::fill(row_.begin(), row_.end(), 0.0F);
      for (size_t s = 0; s < n; ++s) {
        const float weight = weight_of(s);
        kernels.axpy(row_.data(), weight, some + s * x_stride, constant);
        row_[constant] += weight;
      }
      put(to, inputs_);
    };
    sums([](size_t) { return 1.0F; }, &square_[at(constant, 0)]);
    for (size_t t = 0; t < targets_; ++t)
      sums([&](size_t s) { return y[(first + s) * targets_ + t]; }, &product_[t * inputs_]);
  }
}

std::vector<float> Ridge::solve(double penalty) {
  std::vector<float> weights(size_t{targets_} * inputs_);
  double trace = 0;
  for (size_t i = 0; i < inputs_; ++i) trace += square_[at(i, i)];
  if (!(trace > 0)) return weights;
  for (size_t i = 0; i < inputs_; ++i) square_[at(i, i)] += penalty * trace / inputs_;
  // Cholesky: the lower half becomes L with L L^T = the sums.
  for (size_t i = 0; i < inputs_; ++i) {
    double* const row = &square_[at(i, 0)];
    for (size_t j = 0; j < i; ++j)
      row[j] = (row[j] - dot(row, &square_[at(j, 0)], j)) / square_[at(j, j)];
    row[i] = std::sqrt(std::max(row[i] - dot(row, row, i), 1e-12 * trace / inputs_));
  }
  std::vector<double> w(inputs_);
  for (size_t t = 0; t < targets_; ++t) {
    for (size_t i = 0; i < inputs_; ++i)
      w[i] = (product_[t * inputs_ + i] - dot(&square_[at(i, 0)], w.data(), i)) / square_[at(i, i)];
    for (size_t i = inputs_; i-- > 0;) {
      w[i] /= square_[at(i, i)];
      for (size_t j = 0; j < i; ++j) w[j] -= square_[at(i, j)] * w[i];
    }
    for (size_t i = 0; i < inputs_; ++i) weights[t * inputs_ + i] = static_cast<float>(w[i]);
  }
  return weights;
}

}  // namespace kvick::distil
