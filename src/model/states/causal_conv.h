#pragma once
// Depthwise convolution over time, each channel separately: y[t] = bias + sum over k of taps[k] *
// x[t - (kernel - 1) + k]. The last kernel - 1 inputs are the first floats of the layer's state,
// [kernel - 1][channels], oldest first.

#include "model/states/layer_states.h"

namespace kvick::model {

class CausalConv {
 public:
  enum class Activation : uint8_t { kNone, kSilu };  // applied to the output

  // Reads `name`.weight, [channels][kernel], and `name`.bias if the file has it. The sizes are
  // those of the layer's StateConfig.
  static base::Result<CausalConv> read(const BlockReader& reader, std::string_view name);

  // Convolves in place: the [channels] inputs of token t are at x + t * stride.
  void run(const Pass& pass, const LayerStates& states, float* x, size_t stride,
           Activation activation) const;

 private:
  struct Channels {
    uint32_t first, count;
  };
  void run_row(const kernels::Table& kernels, const StateRow& row, Channels channels,
               const float* x, float* y) const;

  uint32_t kernel_ = 0, channels_ = 0;
  std::vector<float> taps_;  // [kernel][channels]
  std::vector<float> bias_;  // [channels]
};

}  // namespace kvick::model
