#pragma once
// A model's weights as one flat tensor, of which the named tensors are views. The optimiser,
// gradient clipping and checkpoints then work on one tensor.

#include <unordered_map>

#include "train/network/tensors.h"
#include "train/settings/shapes.h"

namespace kvick::train {

class Parameters {
 public:
  // Draws float32 values from the run's seed, the same on every device.
  Parameters(const Settings& settings, const torch::Device& device);

  const Tensor& at(const std::string& name) const { return parts_.at(name); }
  const Tensor& values() const { return values_; }  // [elements_of(model)]
  // Each holds only the trained part, [trained_part(settings).count]; backward() adds to
  // gradients().
  const Tensor& trained() const { return trained_; }  // a view of values()
  const Tensor& gradients() const { return gradients_; }
  const Tensor& decays() const { return decays_; }  // 1 where weight decay applies, else 0

 private:
  Tensor values_, trained_, gradients_, decays_;
  std::unordered_map<std::string, Tensor> parts_;
};

}  // namespace kvick::train
