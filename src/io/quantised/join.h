#pragma once
// Joins the tensors that a Hugging Face folder stores to those of the model: the parts of a
// quantised module become one tensor, whose rows are converted as they are read.

#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/expert_rows.h"
#include "io/quantised/scheme.h"
#include "io/safetensors/safetensors.h"

namespace kvick::io {

struct JoinedTensor {
  Tensor tensor;
  std::string label;  // for messages: the label of its first part
};

// Names are the folder's: "model.layers.0.mlp.up_proj.weight". Experts in a shared tensor become
// "...experts.gate_proj", "up_proj" and "down_proj". Error: a part is missing or contradicts the
// others, or neither kernels nor the scheme know a tensor's type.
base::Result<std::vector<JoinedTensor>> join_tensors(const Scheme& scheme, GateUp gate_up,
                                                     const std::vector<StoredTensor>& stored);

}  // namespace kvick::io
