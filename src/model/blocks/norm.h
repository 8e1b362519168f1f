#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kernels/table/table.h"
#include "model/core/weights.h"

namespace kvick::model {

// A bias makes it LayerNorm, none RMSNorm; without weights nothing is normalised.
struct Norm {
  std::vector<float> weight, bias;
  bool empty() const { return weight.empty(); }
  // y = norm(x), n elements; y may be x.
  void apply(const kernels::Table& kernels, const float* x, size_t n, float eps, float* y) const;
};

enum class NormKind : uint8_t { kRms, kLayer };
base::Result<Norm> read_norm(WeightReader& reader, const std::string& name, uint32_t size,
                             NormKind kind);

// The names of a block's norms in the file, of what it reads and of what it adds; empty: it has
// none.
struct NormNames {
  std::string_view before, after;
};

}  // namespace kvick::model
