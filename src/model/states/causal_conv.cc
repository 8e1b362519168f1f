#include "model/states/causal_conv.h"

#include <algorithm>
#include <array>

namespace kvick::model {
namespace {

constexpr uint32_t kChannels = 128;  // channels per task; a token's result does not depend on it
constexpr size_t kWorthwhileFloats = 1 << 14;

constexpr std::array<float, kChannels> kOnes = [] {
  std::array<float, kChannels> ones{};
  ones.fill(1);
  return ones;
}();

}  // namespace

base::Result<CausalConv> CausalConv::read(const BlockReader& reader, std::string_view name) {
  CausalConv conv;
  const StateConfig& state = reader.numbers().state;
  conv.kernel_ = state.conv_kernel;
  conv.channels_ = state.conv_channels;
  const std::string tensor = reader.name(name);
  KVICK_TRY(const std::vector<float> weight,
            reader.weights.rows(tensor, conv.channels_, conv.kernel_));
  conv.taps_.resize(weight.size());
  for (size_t c = 0; c < conv.channels_; ++c)
    for (size_t k = 0; k < conv.kernel_; ++k)
      conv.taps_[k * conv.channels_ + c] = weight[c * conv.kernel_ + k];
  conv.bias_.resize(conv.channels_);
  if (reader.weights.has(tensor + ".bias")) {
    KVICK_TRY(conv.bias_, reader.weights.vector(tensor + ".bias", conv.channels_));
  }
  return conv;
}

// Reads the state before it writes it, because before and after may be the same memory.
void CausalConv::run_row(const kernels::Table& kernels, const StateRow& row, Channels channels,
                         const float* x, float* y) const {
  const uint32_t first = channels.first, count = channels.count;
  const uint32_t kept = kernel_ - 1;
  std::copy_n(bias_.data() + first, count, y);
  for (uint32_t k = 0; k < kernel_; ++k) {
    const float* const tap = taps_.data() + size_t{k} * channels_ + first;
    const float* const from = k == kept ? x : row.before + size_t{k} * channels_ + first;
    for (uint32_t i = 0; i < count; ++i) y[i] += tap[i] * from[i];
  }
  for (uint32_t k = 0; k + 1 < kept; ++k)
    std::copy_n(row.before + size_t{k + 1} * channels_ + first, count,
                row.after + size_t{k} * channels_ + first);
  std::copy_n(x, count, row.after + size_t{kept - 1} * channels_ + first);
  for (uint32_t k = 0; k < kept; ++k) row.finish(kernels, size_t{k} * channels_ + first, count);
}

void CausalConv::run(const Pass& pass, const LayerStates& states, float* x, size_t stride,
                     Activation activation) const {
  const uint32_t blocks = (channels_ + kChannels - 1) / kChannels;
  const size_t floats = size_t{kChannels} * kernel_ * pass.tokens / states.slots();
  const size_t grain = std::max<size_t>(1, kWorthwhileFloats / floats);
  const kernels::Table& kernels = pass.workspace.kernels;
  const auto run_block = [&](uint32_t slot, Channels channels) {
    std::array<float, kChannels> y;
    for (const StateRow& row : states.rows(slot)) {
      float* const at = x + row.token * stride + channels.first;
      run_row(kernels, row, channels, at, y.data());
      if (activation == Activation::kSilu)
        kernels.silu_mul(y.data(), kOnes.data(), channels.count, at);
      else
        std::copy_n(y.data(), channels.count, at);
    }
  };
  pass.workspace.pool.parallel_for(
      size_t{states.slots()} * blocks, grain, [&](size_t begin, size_t end, unsigned) {
        for (size_t i = begin; i < end; ++i) {
          const uint32_t first = static_cast<uint32_t>(i % blocks) * kChannels;
          run_block(static_cast<uint32_t>(i / blocks),
                    {first, std::min(kChannels, channels_ - first)});
        }
      });
}

}  // namespace kvick::model
