#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/table/table.h"
#include "model/core/weights.h"

namespace kvick::model {

// LayerNorm if it has a bias, RMSNorm if not. Without weights it copies its input.
struct Norm {
  std::vector<float> weight, bias;
  bool empty() const { return weight.empty(); }
  // y = norm(x), n elements; y may be x.
  void apply(const kernels::Table& kernels, const float* x, size_t n, float eps, float* y) const;
};

enum class NormKind : uint8_t { kRms, kLayer, kLayerWithoutBias };
base::Result<Norm> read_norm(WeightReader& reader, const std::string& name, uint32_t size,
                             NormKind kind);

// Tensor names of a block's norms; empty: none. before: norm of the block's input; after: of its
// output; sum: of the residual stream once the output is added; second_sum: of the result of `sum`
// plus the previous residual stream, in layers that have its tensor, and never together with
// `after`.
struct NormNames {
  std::string_view before, after, sum, second_sum;
};
struct BlockNorms {
  Norm before, after, sum, second_sum;
};

}  // namespace kvick::model
