#pragma once
// Reads from a Hugging Face folder's config how its tensors are quantised.

#include <cstdint>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// The tensors show which modules are quantised: lists of exceptions are not read.
struct Scheme {
  enum class Method : uint8_t { kNone, kFp8, kGptq, kAwq, kCompressed, kMxfp4 };
  Method method = Method::kNone;
  uint32_t bits = 0;        // GPTQ and AWQ: 4 or 8
  uint64_t group = 0;       // number of inputs that share a scale; 0: derived from the shapes
  uint32_t zero_added = 0;  // added to stored zero points: GPTQ's first format stores them less 1
  // Numbers of outputs and inputs that share a scale of FP8; 0: derived from the shapes.
  uint64_t block_outputs = 0, block_inputs = 0;
};

// Reads a config.json; kNone if it has no quantization_config. Error: kvick does not read the
// method, or its bits or layout.
base::Result<Scheme> read_scheme(const JsonObject& config);

}  // namespace kvick::io
