#pragma once
// Compares fast computations with their definitions on the training device: for machines without a
// test framework, and for the tests.

#include <string>
#include <vector>

#include "train/network/tensors.h"

namespace kvick::train {

struct CheckResult {
  std::string what;
  double difference = 0;  // largest difference of an element, relative to the largest element
  double allowed = 0;
  bool ok() const { return difference <= allowed; }
};

// Compares chunked memory attention and its gradients with one token after the other, in doubles,
// for every update; and causal attention with its written-out form.
std::vector<CheckResult> check_device(const torch::Device& device);

}  // namespace kvick::train
