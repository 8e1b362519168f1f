#pragma once
// The weights of make_model's models without a file, for reference implementations in tests.

#include <map>
#include <string>
#include <vector>

#include "make_model/spec.h"

namespace kvick::model {

// Returns the weights by the names of GGUF tensors, row by row.
inline std::map<std::string, std::vector<float>> made_weights(const tools::Spec& spec) {
  std::map<std::string, std::vector<float>> weights;
  for (const tools::TensorInfo& tensor : tools::tensors_of(spec)) {
    std::vector<float>& data = weights[tensor.name];
    data.resize(tensor.rows() * tensor.inputs());
    for (uint64_t row = 0; row < tensor.rows(); ++row)
      tools::fill_row(spec, tensor, row, data.data() + row * tensor.inputs());
  }
  return weights;
}

}  // namespace kvick::model
