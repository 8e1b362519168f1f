#pragma once
// The loss that a training step minimises.

#include "train/network/network.h"
#include "train/tasks/tasks.h"

namespace kvick::train {

// A batch where it is computed: [rows, tokens], and [rows, tokens, top] of answers.
struct OnDevice {
  Tensor inputs, targets, likeliest, chances;
};
OnDevice to_device(const Batch& batch, const torch::Device& device);

// The mean cross-entropy over the targets that are asked for: against the next token or, for
// answers, against the other model's distribution over its likeliest tokens, normalised to sum 1.
Tensor loss_of(const Tensor& logits, const OnDevice& data);

// The same for a batch of answers from hidden [rows, tokens, dim] and the output matrix [vocab,
// dim], with the sum over the vocabulary estimated: exact over all tokens that are likely anywhere
// in the batch, and for the others by `negatives` of them drawn from `seed` (sampled softmax, Jean
// et al. 2015, with uniform draws). Of 49,152 columns of the output a few thousand are computed.
Tensor sampled_loss(const Tensor& hidden, const Tensor& output, const OnDevice& data,
                    uint64_t negatives, uint64_t seed);

}  // namespace kvick::train
