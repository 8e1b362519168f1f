#include "train/network/parameters.h"

#include <ATen/CPUGeneratorImpl.h>

namespace kvick::train {

Parameters::Parameters(const Settings& settings, const torch::Device& device) {
  const at::NoGradGuard no_grad;
  at::Generator random = at::detail::createCPUGenerator(settings.run.seed);
  const std::vector<TensorShape> tensors = tensors_of(settings.model);
  std::vector<Tensor> values, decays;
  for (const TensorShape& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.elements());
    Tensor part = torch::empty({elements});
    values.push_back(tensor.sd == 0 ? part.fill_(tensor.mean)
                                    : part.normal_(tensor.mean, tensor.sd, random));
    if (tensor.rise != 0 && elements > 1)
      part.add_(torch::linspace(-tensor.rise / 2, tensor.rise / 2, elements));
    decays.push_back(torch::full({elements}, tensor.decays ? 1.0 : 0.0));
  }
  const TrainedPart train = trained_part(settings);
  const auto begin = static_cast<int64_t>(train.first), count = static_cast<int64_t>(train.count);
  values_ = torch::cat(values).to(device);
  trained_ = values_.narrow(0, begin, count);
  decays_ = torch::cat(decays).narrow(0, begin, count).to(device);
  gradients_ = torch::zeros_like(trained_);
  int64_t first = 0;
  for (const TensorShape& tensor : tensors) {
    const auto elements = static_cast<int64_t>(tensor.elements());
    const std::vector<int64_t> shape(tensor.shape.begin(), tensor.shape.end());
    Tensor part = values_.narrow(0, first, elements).view(shape).detach();
    if (first >= begin && first + elements <= begin + count) {
      part.requires_grad_(true);
      part.mutable_grad() = gradients_.narrow(0, first - begin, elements).view(shape);
    }
    parts_.emplace(tensor.name, part);
    first += elements;
  }
}

}  // namespace kvick::train
