#pragma once
// Computes the loss that a training step minimises.

#include "train/network/network.h"
#include "train/tasks/tasks.h"

namespace kvick::train {

// A batch on the device: [rows, tokens], and for answers [rows, tokens, top].
struct OnDevice {
  Tensor inputs, targets, likeliest, chances;
};
OnDevice to_device(const Batch& batch, const torch::Device& device);

// Returns the mean cross-entropy over the targets: against the next token or, for answers, against
// the other model's distribution over its likeliest tokens, normalised to sum 1.
Tensor loss_of(const Tensor& logits, const OnDevice& data);

// Returns the same loss for a batch of answers from hidden [rows, tokens, dim] and the output
// matrix [vocab, dim], with an estimated sum over the vocabulary: exact over all tokens that are
// likely anywhere in the batch, and for the others from `negatives` tokens drawn with `seed`
// (sampled softmax, Jean et al. 2015, with uniform draws). This computes a few thousand of 49,152
// columns.
Tensor sampled_loss(const Tensor& hidden, const Tensor& output, const OnDevice& data,
                    uint64_t negatives, uint64_t seed);

}  // namespace kvick::train
