#include "train/parameters.h"

#include <ATen/CPUGeneratorImpl.h>

namespace kvick::train {

Parameters::Parameters(const ModelSettings& model, uint64_t seed, const torch::Device& device) {
  const at::NoGradGuard no_grad;
  at::Generator random = at::detail::createCPUGenerator(seed);
  const std::vector<TensorShape> tensors = tensors_of(model);
  std::vector<Tensor> values, decays;
  for (const TensorShape& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.elements());
    Tensor part = torch::empty({elements});
    values.push_back(tensor.sd == 0 ? part.fill_(tensor.mean)
                                    : part.normal_(tensor.mean, tensor.sd, random));
    decays.push_back(torch::full({elements}, tensor.decays ? 1.0 : 0.0));
  }
  values_ = torch::cat(values).to(device);
  decays_ = torch::cat(decays).to(device);
  gradients_ = torch::zeros_like(values_);
  int64_t first = 0;
  for (const TensorShape& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.elements());
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    Tensor part = values_.narrow(0, first, elements).view(shape).detach();
    part.requires_grad_(true);
    part.mutable_grad() = gradients_.narrow(0, first, elements).view(shape);
    parts_.emplace(tensor.name, part);
    first += elements;
  }
}

}  // namespace kvick::train
