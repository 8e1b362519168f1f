#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/dtype.h"
#include "kv/registry.h"

namespace kvick::engine {

// How an engine keeps keys and values.
struct KvOptions {
  kv::Spec spec = {.name = std::string(kv::strategies().front().name), .options = {}};
  kernels::DType dtype = kernels::DType::kF16;
  uint32_t max_tokens = 0;  // of one sequence; 0: the model's context
  uint64_t max_bytes = UINT64_MAX;
};

// spec: NAME[:key=value,...] or empty for the default strategy; type: f32, f16 or bf16. Errors list
// what exists.
base::Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type);

}  // namespace kvick::engine
