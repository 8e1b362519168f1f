#include "model/blocks/norm.h"

#include <algorithm>

namespace kvick::model {

void Norm::apply(const kernels::Table& kernels, const float* x, size_t n, float eps,
                 float* y) const {
  if (!bias.empty()) return kernels.layer_norm(x, weight.data(), bias.data(), n, eps, y);
  if (!weight.empty()) return kernels.rms_norm(x, weight.data(), n, eps, y);
  if (x != y) std::copy_n(x, n, y);
}

base::Result<Norm> read_norm(WeightReader& reader, const std::string& name, uint32_t size,
                             NormKind kind) {
  Norm norm;
  KVICK_TRY(norm.weight, reader.norm_weight(name, size));
  if (kind == NormKind::kLayer) {
    KVICK_TRY(norm.bias, reader.vector(name + ".bias", size));
  }
  if (kind == NormKind::kLayerWithoutBias) norm.bias.assign(size, 0);
  return norm;
}

}  // namespace kvick::model
