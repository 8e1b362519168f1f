#include "model/workspace.h"

#include <algorithm>

namespace kvick::model {
namespace {

// Below about so many, a region costs more than the work.
constexpr size_t kWorthwhileFloats = 4096;

// Grown to the exact size: batches settle on one or two sizes, and prefill's are large.
void reserve(base::Buffer& buffer, size_t bytes) {
  if (buffer.size() < bytes) buffer = base::Buffer(bytes);
}

}  // namespace

float* Workspace::floats(Name name, size_t count) {
  reserve(buffers_[name], count * sizeof(float));
  return buffers_[name].as<float>();
}

void Workspace::for_tokens(uint32_t tokens, size_t floats, TokenBody body) {
  pool.parallel_for(tokens, std::max<size_t>(1, kWorthwhileFloats / std::max<size_t>(1, floats)),
                    [&](size_t begin, size_t end, unsigned) {
                      for (size_t t = begin; t < end; ++t) body(static_cast<uint32_t>(t));
                    });
}

// The tokens of one tile share cache lines: first each thread prepares rows of its own, then each
// quantises inputs of its own.
void Workspace::quantise_tile(TokenBody prepare) {
  const uint32_t tokens = activations_.tokens, groups = activations_.groups();
  for_tokens(tokens, activations_.inputs, prepare);
  const size_t floats = size_t{tokens} * kernels::kGroup;  // of one group
  const size_t grain =
      std::max<size_t>(kWorthwhileFloats / floats, (groups + pool.size() - 1) / pool.size());
  pool.parallel_for(groups, grain, [&](size_t begin, size_t end, unsigned) {
    kernels.quantise(activations_, {0, tokens},
                     {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  });
}

void Workspace::quantise_tiles(TokenBody prepare) {
  const uint32_t tokens = activations_.tokens;
  const uint32_t tiles = (tokens + kernels::kTokenTile - 1) / kernels::kTokenTile;
  pool.parallel_for(tiles, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t tile = begin; tile < end; ++tile) {
      const auto first = static_cast<uint32_t>(tile) * kernels::kTokenTile;
      const uint32_t last = std::min(tokens, first + kernels::kTokenTile);
      for (uint32_t t = first; t < last; ++t) prepare(t);
      kernels.quantise(activations_, {first, last}, {0, activations_.groups()});
    }
  });
}

const kernels::Activations& Workspace::activations(const float* x, uint32_t tokens, uint32_t inputs,
                                                   bool quantised, TokenBody prepare) {
  activations_ = {.tokens = tokens, .inputs = inputs, .x = x, .q = {}, .scale = {}, .sums = {}};
  if (!quantised) {
    for_tokens(tokens, inputs, prepare);
    return activations_;
  }
  const size_t n = size_t{tokens} * inputs;
  reserve(q_, n);
  reserve(scale_, n / kernels::kGroup * sizeof(float));
  reserve(sums_, n / 16 * sizeof(int32_t));
  activations_.q = {q_.as<int8_t>(), n};
  activations_.scale = {scale_.as<float>(), n / kernels::kGroup};
  activations_.sums = {sums_.as<int32_t>(), n / 16};
  if (tokens <= kernels::kTokenTile)
    quantise_tile(prepare);
  else
    quantise_tiles(prepare);
  return activations_;
}

}  // namespace kvick::model
