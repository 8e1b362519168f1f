#pragma once
// What is computed fast against its definition, on the device that will train: for machines that
// have no test framework, and for the tests.

#include <string>
#include <vector>

#include "train/network/tensors.h"

namespace kvick::train {

struct CheckResult {
  std::string what;
  double difference = 0;  // largest of any element, relative to the largest element
  double allowed = 0;
  bool ok() const { return difference <= allowed; }
};

// Chunked memory attention against one token after the other, its gradients likewise, in doubles,
// for every update; causal attention against itself written out.
std::vector<CheckResult> check_device(const torch::Device& device);

}  // namespace kvick::train
