#pragma once
// How a Hugging Face folder says that its tensors are quantised.

#include <cstdint>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// Which modules are quantised, the tensors say: lists of exceptions are not read.
struct Scheme {
  enum class Method : uint8_t { kNone, kFp8, kGptq, kAwq, kCompressed, kMxfp4 };
  Method method = Method::kNone;
  uint32_t bits = 0;        // GPTQ and AWQ: 4 or 8
  uint64_t group = 0;       // inputs that share a scale; 0: as the shapes say
  uint32_t zero_added = 0;  // to stored zero points: GPTQ's first format has them less 1
  // Outputs and inputs that share a scale of FP8; 0: as the shapes say.
  uint64_t block_outputs = 0, block_inputs = 0;
};

// Of a config.json; kNone if it has no quantization_config. Error: a method, or bits or a layout of
// one, that kvick does not read.
base::Result<Scheme> read_scheme(const JsonObject& config);

}  // namespace kvick::io
