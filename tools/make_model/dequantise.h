#pragma once
// The same model with float weights: what a quantised one is measured against.

#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/formats/dtype.h"

namespace kvick::tools {

// Writes the GGUF file `from` again with every tensor of a quantised type turned into `type`, which
// is F32, F16 or BF16, and general.file_type saying so. All else stays as it was: the other
// metadata bit by bit, the tensors' order, names and shapes, and those of a float type. Errors: no
// whole GGUF file that can be read, another type, `to` cannot be written or is `from`.
base::Status<> dequantise_gguf(const std::string& from, kernels::DType type, const std::string& to,
                               base::ThreadPool& pool);

}  // namespace kvick::tools
