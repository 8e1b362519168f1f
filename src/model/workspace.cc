#include "model/workspace.h"

namespace kvick::model {
namespace {

// Grown to the exact size: batches settle on one or two sizes, and prefill's are large.
void reserve(base::Buffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) buffer = base::Buffer(bytes);
}

}  // namespace

float* Workspace::floats(Name name, size_t count) {
  reserve(buffers_[name], count * sizeof(float));
  return buffers_[name].as<float>();
}

const kernels::Activations& Workspace::quantise(const float* x, uint32_t tokens, uint32_t inputs) {
  const size_t n = size_t{tokens} * inputs;
  reserve(q_, n);
  reserve(scale_, n / kernels::kGroup * sizeof(float));
  reserve(sums_, n / 16 * sizeof(int32_t));
  activations_ = {.tokens = tokens,
                  .inputs = inputs,
                  .x = x,
                  .q = {q_.as<int8_t>(), n},
                  .scale = {scale_.as<float>(), n / kernels::kGroup},
                  .sums = {sums_.as<int32_t>(), n / 16}};
  pool.parallel_for(tokens, 8, [&](size_t begin, size_t end, unsigned) {
    kernels.quantise(activations_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
  });
  return activations_;
}

const kernels::Activations& Workspace::plain(const float* x, uint32_t tokens, uint32_t inputs) {
  activations_ = {.tokens = tokens, .inputs = inputs, .x = x, .q = {}, .scale = {}, .sums = {}};
  return activations_;
}

}  // namespace kvick::model
