#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/dtype.h"
#include "kv/registry.h"

namespace kvick::engine {

// How an engine keeps keys and values.
struct KvOptions {
  kv::Spec spec = {.name = std::string(kv::strategies().front().name), .options = {}};
  kernels::DType k_type = kernels::DType::kF16, v_type = kernels::DType::kF16;
  std::optional<kv::Aging> aging = {};  // of old rows, if their types change with age
  uint32_t max_tokens = 0;              // of one sequence; 0: the model's context
  uint64_t max_bytes = UINT64_MAX;
};

// spec: NAME[:key=value,...] or empty for the default strategy. type: f32, f16, bf16, q8 or q4 of
// both, or of each: k=q8,v=q4 (one that is not named stays f16); or a type that changes with age,
// with its options: mixed:window=128,old=q4. Errors list what exists.
base::Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type);
// The inverse of `type`: "q8", "k=q8,v=q4" if they differ, "mixed:window=128,old=q8".
std::string kv_type_text(const KvOptions& options);

}  // namespace kvick::engine
