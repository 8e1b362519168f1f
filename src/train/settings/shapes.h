#pragma once
// The tensors of a model by GGUF's names. Training and export use the same list.

#include <string>
#include <vector>

#include "train/settings/settings.h"

namespace kvick::train {

struct TensorShape {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  double mean = 0, sd = 0;      // initial distribution
  bool decays = false;          // whether weight decay applies; it does for matrices
  double rise = 0;              // increase of the mean from the first element to the last

  uint64_t elements() const {
    uint64_t product = 1;
    for (const uint64_t size : shape) product *= size;
    return product;
  }
};

// Returns whether a tensor belongs to MAPLE's predictor, which has a file of its own and is not
// part of model files.
bool is_predictor(const TensorShape& tensor);

// Returns the tensors in the order of checkpoints and files. The output matrix is the embedding.
std::vector<TensorShape> tensors_of(const ModelSettings& model);
uint64_t elements_of(const ModelSettings& model);  // of all tensors

// The elements that --train selects, counted from the first element of the first tensor: all, or
// only the blocks, which are contiguous between the embedding and the last norm.
struct TrainedPart {
  uint64_t first = 0, count = 0;
};
TrainedPart trained_part(const Settings& settings);

}  // namespace kvick::train
