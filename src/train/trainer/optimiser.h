#pragma once
// AdamW (Loshchilov and Hutter 2019) on all trained weights at once, with gradients clipped by
// their norm.

#include "train/network/parameters.h"

namespace kvick::train {

class Optimiser {
 public:
  Optimiser(const Parameters& weights, const RunSettings& run);

  // Applies update number `step` (from 0) to the weights and sets their gradients to zero.
  void update(uint64_t step, double rate);

  Tensor first, second;  // the two moments, as flat as the trained weights

 private:
  const Parameters& weights_;
  const RunSettings& run_;
};

// Returns the learning rate at a step: a linear rise over `warmup` steps, then half a cosine down
// to the least share. progress: share of the run that is done, 0 to 1.
double learning_rate(const RunSettings& run, uint64_t step, double progress);

}  // namespace kvick::train
