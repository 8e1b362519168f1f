#pragma once
// Logits of the small models that were recorded with transformers.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "model/core/model.h"

namespace kvick::parity {

struct Steps {
  uint32_t tokens;  // of recorded_tokens
  uint32_t piece;   // tokens per step
};
// Returns the logits of every token, [tokens][vocabulary], with a float32 cache.
std::vector<float> logits_of(const model::Model& model, base::ThreadPool& pool,
                             const kernels::Table& kernels, Steps steps);

}  // namespace kvick::parity
