#include "model/blocks/activation.h"

#include <algorithm>
#include <cmath>

namespace kvick::model {
namespace {

constexpr size_t kPiece = 256;                              // elements, on the stack
constexpr float kTwice = 1.5957691216F, kCube = 0.044715F;  // 2 sqrt(2/pi)

}  // namespace

// With u = sqrt(2/pi) (x + 0.044715 x^3), (1 + tanh(u)) / 2 is the logistic function of 2u.
// silu_mul(2u) is that function times 2u, so gelu(x) = silu(2u) / (2u / x). The divisor 2u / x is
// at least 2 sqrt(2/pi).
void gelu_mul(const kernels::Table& kernels, const float* gate, const float* up, size_t n,
              float* y) {
  float twice[kPiece], share[kPiece];
  for (size_t first = 0; first < n; first += kPiece) {
    const size_t count = std::min(kPiece, n - first);
    for (size_t i = 0; i < count; ++i) {
      const float x = gate[first + i], slope = kTwice * (1 + kCube * x * x);
      twice[i] = x * slope;
      share[i] = 1 / slope;
    }
    kernels.silu_mul(twice, up + first, count, y + first);
    for (size_t i = 0; i < count; ++i) y[first + i] *= share[i];
  }
}

void gated_oai(const kernels::Table& kernels, const float* gate, const float* up, size_t n,
               float* y) {
  constexpr float kSlope = 1.702F, kLimit = 7;
  float a[kPiece], b[kPiece];
  for (size_t first = 0; first < n; first += kPiece) {
    const size_t count = std::min(kPiece, n - first);
    for (size_t i = 0; i < count; ++i) {
      a[i] = kSlope * std::min(gate[first + i], kLimit);
      b[i] = (std::clamp(up[first + i], -kLimit, kLimit) + 1) / kSlope;
    }
    kernels.silu_mul(a, b, count, y + first);
  }
}

// silu_mul multiplies by the gate as well, so x is divided by the gate first. A gate near zero is
// replaced by kLeast, whose sigmoid is 1/2 to the last bit.
void sigmoid_mul(const kernels::Table& kernels, float* gate, float* x, size_t n) {
  constexpr float kLeast = 1e-8F;
  for (size_t i = 0; i < n; ++i) {
    const float g = gate[i];
    gate[i] = std::fabs(g) < kLeast ? kLeast : g;
    x[i] /= gate[i];
  }
  kernels.silu_mul(gate, x, n, x);
}

void keep_outliers(float* x, size_t n, float deviations) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i];
  const double mean = sum / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double cutoff = mean + deviations * std::sqrt(squares / static_cast<double>(n));
  for (size_t i = 0; i < n; ++i) x[i] = std::max(0.0F, x[i] - static_cast<float>(cutoff));
}

void gelu(const kernels::Table& kernels, float* x, size_t n) {
  float ones[kPiece];
  std::fill_n(ones, kPiece, 1.0F);
  for (size_t first = 0; first < n; first += kPiece)
    gelu_mul(kernels, x + first, ones, std::min(kPiece, n - first), x + first);
}

void relu(const kernels::Table& kernels, float* x, size_t n) { kernels.relu(x, n); }

void relu_squared(const kernels::Table& kernels, float* x, size_t n) {
  kernels.relu(x, n);
  for (size_t i = 0; i < n; ++i) x[i] *= x[i];
}

}  // namespace kvick::model
