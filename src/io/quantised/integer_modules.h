#pragma once
// Modules of integer weights as GPTQ, AWQ and compressed-tensors write them.

#include "base/result.h"
#include "io/file/tensor.h"
#include "io/quantised/module.h"
#include "io/quantised/scheme.h"

namespace kvick::io {

// Each gives NAME.weight, [outputs][inputs]. Error: a part is missing, or its type or shape
// contradicts the others or the scheme.

// NAME.qweight, qzeros and scales; of GPTQ, g_idx if there is one.
base::Result<Tensor> gptq_tensor(const Module& module, const Scheme& scheme);
base::Result<Tensor> awq_tensor(const Module& module, const Scheme& scheme);
// NAME.weight_packed, weight_shape and weight_scale; weight_zero_point and weight_g_idx if there
// are any.
base::Result<Tensor> packed_tensor(const Module& module, const Scheme& scheme);
// NAME.weight of bytes and weight_scale; weight_zero_point if there is one.
base::Result<Tensor> signed_tensor(const Module& module, const Scheme& scheme);

}  // namespace kvick::io
