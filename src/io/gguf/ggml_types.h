#pragma once
// GGUF's numbers of element types.

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/formats/dtype.h"

namespace kvick::io {

// Returns the type of a GGUF type number; nullopt if kvick has no kernels for it.
std::optional<kernels::DType> dtype_of_ggml(uint32_t number);
uint32_t ggml_of_dtype(kernels::DType type);  // the inverse
// Returns a name for messages: "Q1_0 (41)", or "99, unknown".
std::string ggml_type_name(uint32_t number);
// Returns the names of all types that kvick reads: "F32, F16, ...".
std::string readable_dtypes();

}  // namespace kvick::io
