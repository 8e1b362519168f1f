#include "model/states/state_type.h"

#include "base/check.h"

namespace kvick::model {

void set_state_type(kernels::DType type, kv::Setup& setup) {
  using kernels::DType;
  KVICK_CHECK(type == DType::kF32 || type == DType::kBF16, "states of {}",
              kernels::dtype_info(type).name);
  for (kv::LayerSpec& layer : setup.layers)
    layer.state_bytes = kernels::dtype_bytes(type, layer.state_bytes / sizeof(float));
}

}  // namespace kvick::model
