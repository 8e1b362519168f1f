#pragma once
// The numbers by which GGUF names element types.

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/formats/dtype.h"

namespace kvick::io {

// The type that a GGUF type number stands for; nullopt if kvick has no kernels for it.
std::optional<kernels::DType> dtype_of_ggml(uint32_t number);
uint32_t ggml_of_dtype(kernels::DType type);  // the inverse
// For messages: "Q1_0 (41)", or "99, unknown".
std::string ggml_type_name(uint32_t number);
// "F32, F16, ...": all types that kvick reads.
std::string readable_dtypes();

}  // namespace kvick::io
