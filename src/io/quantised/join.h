#pragma once
// Joins the tensors that a Hugging Face folder stores into those of its model: the parts of a
// quantised module become one tensor, whose rows are converted when they are read.

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
  std::string label;  // of messages: where the first of its parts lies
};

// Names are those of the folder: "model.layers.0.mlp.up_proj.weight". Experts that share a tensor
// become "...experts.gate_proj", "up_proj" and "down_proj". Error: a part is missing or contradicts
// the others, or a tensor is of a type that neither kernels nor the scheme know.
base::Result<std::vector<JoinedTensor>> join_tensors(const Scheme& scheme, GateUp gate_up,
                                                     const std::vector<StoredTensor>& stored);

}  // namespace kvick::io
