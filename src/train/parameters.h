#pragma once
// A model's weights as one flat tensor, of which each named one is a part: the optimiser, gradient
// clipping and checkpoints are operations on one tensor.

#include <unordered_map>

#include "train/shapes.h"
#include "train/tensors.h"

namespace kvick::train {

class Parameters {
 public:
  // Random from the seed, the same on every device; float32.
  Parameters(const ModelSettings& model, uint64_t seed, const torch::Device& device);

  const Tensor& at(const std::string& name) const { return parts_.at(name); }
  // [elements of tensors_of(model)]; backward() adds into gradients.
  const Tensor& values() const { return values_; }
  const Tensor& gradients() const { return gradients_; }
  const Tensor& decays() const { return decays_; }  // 1 where weight decay applies, else 0

 private:
  Tensor values_, gradients_, decays_;
  std::unordered_map<std::string, Tensor> parts_;
};

}  // namespace kvick::train
