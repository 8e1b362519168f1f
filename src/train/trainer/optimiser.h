#pragma once
// AdamW (Loshchilov and Hutter 2019) on all trained weights at once, gradients clipped by their
// norm.

#include "train/network/parameters.h"

namespace kvick::train {

class Optimiser {
 public:
  Optimiser(const Parameters& weights, const RunSettings& run);

  // Update number `step`, from 0, of the weights by their gradients, which are zero afterwards.
  void update(uint64_t step, double rate);

  Tensor first, second;  // the two moments, flat as what is trained

 private:
  const Parameters& weights_;
  const RunSettings& run_;
};

// The learning rate at a step: a rise over `warmup` steps, then half a cosine down to its least
// share. progress: share of the run that is done, 0 to 1.
double learning_rate(const RunSettings& run, uint64_t step, double progress);

}  // namespace kvick::train
