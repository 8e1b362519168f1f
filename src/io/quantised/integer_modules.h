#pragma once
// Reads modules of integer weights in the forms of GPTQ, AWQ and compressed-tensors.

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/module.h"
#include "io/quantised/scheme.h"

namespace kvick::io {

// Each function returns NAME.weight, [outputs][inputs]. Error: a part is missing, or its type or
// shape contradicts the other parts or the scheme.

// Read NAME.qweight, qzeros and scales; for GPTQ also g_idx if present.
base::Result<Tensor> gptq_tensor(const Module& module, const Scheme& scheme);
base::Result<Tensor> awq_tensor(const Module& module, const Scheme& scheme);
// Reads NAME.weight_packed, weight_shape and weight_scale; weight_zero_point and weight_g_idx if
// present.
base::Result<Tensor> packed_tensor(const Module& module, const Scheme& scheme);
// Reads NAME.weight (bytes) and weight_scale; weight_zero_point if present.
base::Result<Tensor> signed_tensor(const Module& module, const Scheme& scheme);

}  // namespace kvick::io
