#pragma once
// Activations of feed-forward blocks that kernels::Table lacks, built from those that it has.

#include <cstddef>

#include "kernels/table/table.h"

namespace kvick::model {

// y = gelu(gate) * up, n elements: gelu(x) = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
// (Hendrycks and Gimpel 2016). y may be gate.
void gelu_mul(const kernels::Table& kernels, const float* gate, const float* up, size_t n,
              float* y);

// y = a * sigmoid(1.702 a) * (b + 1), n elements, with a = min(gate, 7) and b = up within -7 and 7
// (OpenAI's gpt-oss, 2025). y may be gate.
void gated_oai(const kernels::Table& kernels, const float* gate, const float* up, size_t n,
               float* y);

// x *= sigmoid(gate), n elements. Changes gate.
void sigmoid_mul(const kernels::Table& kernels, float* gate, float* x, size_t n);
// x = max(0, x - (mean + deviations * standard deviation)), over the n > 1 elements of a gate
// (Gemma 3n, 2025).
void keep_outliers(float* x, size_t n, float deviations);

// These work in place, on n elements.
void gelu(const kernels::Table& kernels, float* x, size_t n);
void relu(const kernels::Table& kernels, float* x, size_t n);
void relu_squared(const kernels::Table& kernels, float* x, size_t n);

}  // namespace kvick::model
