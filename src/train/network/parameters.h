#pragma once
// A model's weights as one flat tensor; the named tensors are views of parts of it. The optimiser,
// gradient clipping and checkpoints are then operations on one tensor.

#include <unordered_map>

#include "train/network/tensors.h"
#include "train/settings/shapes.h"

namespace kvick::train {

class Parameters {
 public:
  // Random from the run's seed, the same on every device; float32.
  Parameters(const Settings& settings, const torch::Device& device);

  const Tensor& at(const std::string& name) const { return parts_.at(name); }
  const Tensor& values() const { return values_; }  // [elements_of(model)]
  // The trained part of each, [trained_part(settings).count]; backward() adds into gradients.
  const Tensor& trained() const { return trained_; }  // that part of values()
  const Tensor& gradients() const { return gradients_; }
  const Tensor& decays() const { return decays_; }  // 1 where weight decay applies, else 0

 private:
  Tensor values_, trained_, gradients_, decays_;
  std::unordered_map<std::string, Tensor> parts_;
};

}  // namespace kvick::train
