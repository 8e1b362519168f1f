#pragma once
// The tensors of a model, by GGUF's names: what is trained is what is exported.

#include <string>
#include <vector>

#include "train/settings/settings.h"

namespace kvick::train {

struct TensorShape {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  double mean = 0, sd = 0;      // before training
  bool decays = false;          // weight decay is for matrices
  double rise = 0;              // of the mean, from the first element to the last

  uint64_t elements() const {
    uint64_t product = 1;
    for (const uint64_t size : shape) product *= size;
    return product;
  }
};

// Whether a tensor is MAPLE's predictor's, which model files have not: it has a file of its own.
bool is_predictor(const TensorShape& tensor);

// In the order in which checkpoints and files hold them. The output matrix is the embedding.
std::vector<TensorShape> tensors_of(const ModelSettings& model);
uint64_t elements_of(const ModelSettings& model);  // in all tensors

// The elements that --train selects, counted from the first tensor's first: all, or only the
// blocks, which are contiguous between the embedding and the last norm.
struct TrainedPart {
  uint64_t first = 0, count = 0;
};
TrainedPart trained_part(const Settings& settings);

}  // namespace kvick::train
