#pragma once
// Logits of the small models that transformers recorded.

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/table/table.h"
#include "model/core/model.h"

namespace kvick::parity {

// The recorded tokens: i * 7 % 64, i from 0.
struct Steps {
  uint32_t tokens;
  uint32_t piece;  // of one step
};
// Of every token, [tokens][vocabulary], with a cache of float32.
std::vector<float> logits_of(const model::Model& model, base::ThreadPool& pool,
                             const kernels::Table& kernels, Steps steps);

}  // namespace kvick::parity
