#pragma once
// Matrices of integers with scales and zero points, scale * (code - zero), as blocks of GGML.

#include <string>

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/integer_codes.h"
#include "io/quantised/scale_grid.h"

namespace kvick::io {

struct IntegerParts {
  uint32_t bits = 4;
  MatrixSize size;
  // Inputs that share a scale and a zero point; the last group may be cut off.
  uint64_t group = 0;
  IntegerCodes codes;  // [outputs][inputs]
  ScaleGrid scales;    // [outputs][groups], or fewer where outputs or groups share them
  IntegerCodes zeros;  // of the scales' shape
  uint32_t zero_added = 0;
  const StoredTensor* group_of = nullptr;  // I32 [inputs]: the group of each; null: in order
};

// Q4_0 and Q8_0 if all zero points are in the middle: the same weights, if scales are float16, and
// else scales rounded to it. Q4_1 for other zero points of 4 bits; there scale * zero is rounded
// to float16, by 1/128 of a step at most (Q5_0 would be exact but is slower, by half on prompts).
// F16, rounded once, for other zero points of 8 bits, and where a group is not a whole number of
// blocks or its inputs do not lie together (activation order). Looks at zero points until one is
// not in the middle, and at group_of. Error: group_of is of another type or shape, or holds no
// group.
base::Result<Tensor> integer_tensor(const std::string& name, const IntegerParts& parts);

}  // namespace kvick::io
