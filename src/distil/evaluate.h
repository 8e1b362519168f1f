#pragma once
// Measures how well a predictor finds the rows that matter, by the true scores of a sequence.

#include <cstdint>
#include <span>

#include "distil/capture.h"

#include "kv/select/predictor.h"

namespace kvick::distil {

struct EvaluateOptions {
  double budget = 0.125;  // share of a token's rows that are read, including `sinks` and `recent`
  uint32_t sinks = 4, recent = 32;
  uint32_t queries = 16;  // evaluated tokens, evenly spaced over the sequence's second half
  kernels::DType type = kernels::DType::kStatic8;  // of the low-rank keys: kStatic8 or f16
};

// Means over tokens and KV heads, or over layers. A row's weight is its attention probability,
// averaged over the query heads of a group.
struct Quality {
  double mse = 0;         // of the predicted scores, less the mean error of each query
  double recall = 0;      // share of the heaviest rows, without sinks and recent ones, that is read
  double mass = 0;        // weight of the rows that are read
  double layer_mass = 0;  // the same if all KV heads of the layer read the same rows
  double best_mass = 0;   // weight of the heaviest rows: no choice can have more
};
Quality mean_of(std::span<const Quality> parts);

Quality evaluate(const kv::Predictor& predictor, const LayerActivations& layer,
                 const EvaluateOptions& options, const kernels::Table& kernels);

}  // namespace kvick::distil
