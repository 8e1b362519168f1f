#pragma once
// Multiplies the rows of a tensor by factors that a folder's config has beside the weights.

#include <string>
#include <vector>

#include "base/result.h"
#include "io/file/tensor.h"

namespace kvick::io {

// The factor of the next `rows` rows of a tensor; 0: of all that are left.
struct RowFactor {
  float factor = 1;
  uint64_t rows = 0;
};

// Returns the tensor with its rows multiplied as they are read: F32 stays F32, other types become
// F16, which rounds once, to 11 bits. Without a factor other than 1 it is the same tensor.
// Error: the factors are for more or fewer rows. label: where the tensor is, for the message.
base::Result<Tensor> scaled_rows(Tensor tensor, const std::vector<RowFactor>& factors,
                                 const std::string& label);

}  // namespace kvick::io
