#pragma once
// Converts matrices of integers with scales and zero points, scale * (code - zero), to GGML's
// formats.

#include <string>

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/integer_codes.h"
#include "io/quantised/scale_grid.h"

namespace kvick::io {

struct IntegerParts {
  uint32_t bits = 4;
  MatrixSize size;
  // Number of inputs that share a scale and a zero point; the last group may be incomplete.
  uint64_t group = 0;
  IntegerCodes codes;  // [outputs][inputs]
  ScaleGrid scales;    // [outputs][groups], or fewer if outputs or groups share scales
  IntegerCodes zeros;  // same shape as the scales
  uint32_t zero_added = 0;
  const StoredTensor* group_of = nullptr;  // I32 [inputs]: the group of each input; null: in order
};

// Chooses the type of the result:
// * Q4_0 or Q8_0 if all zero points are in the middle. The weights are the same if scales are
//   float16; otherwise scales are rounded to it.
// * Q4_1 for other zero points of 4 bits. scale * zero is rounded to float16, an error of at most
//   1/128 of a step. (Q5_0 would be exact but is slower, by half on prompts.)
// * F16, rounded once, for other zero points of 8 bits, and if a group is not a whole number of
//   blocks or its inputs are not adjacent (activation order).
// Reads zero points up to the first that is not in the middle, and all of group_of. Error: group_of
// has another type or shape, or a group that does not exist.
base::Result<Tensor> integer_tensor(const std::string& name, const IntegerParts& parts);

}  // namespace kvick::io
