#pragma once
// The principal components of a model's keys on a text, for the policy loki (Singhania et al. 2024,
// section 4): for each layer and KV head the eigenvectors of the keys' covariance, the largest
// eigenvalue first.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "distil/distil.h"

namespace kvick::distil {

struct PcaOptions {
  uint32_t rank = 0;       // components kept of each key; 0: a quarter of head_dim
  bool rotated = true;     // components of keys after rotary position; false: before it
  uint32_t window = 2048;  // tokens of one sequence; the last one is held out
  uint32_t most = 0;       // most tokens of the text to use; 0: all
  EvaluateOptions evaluate = {};
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens
};

// made: as from distil(). explained: per layer, the share of the keys' variance, summed over heads,
// that the components explain.
struct Components {
  Distilled made;
  std::vector<double> explained;
};

// Deterministic: the result does not depend on the number of threads. Errors: those of distil(),
// and keys before rotary position (rotated = false) of a model without it.
base::Result<Components> principal_components(engine::Engine& engine,
                                              std::span<const engine::Token> text,
                                              const PcaOptions& options);

// The predictor file to write. text: the name of the text.
engine::PredictorFile file_of(const Components& found, const engine::ModelIdentity& model,
                              const std::string& text);

// Returns the eigenvectors of a symmetric matrix [n][n] as rows, in descending order of eigenvalue,
// and sets `values` to the eigenvalues in that order. Uses Jacobi rotations.
std::vector<double> eigenvectors(std::vector<double> matrix, uint32_t n,
                                 std::vector<double>& values);

}  // namespace kvick::distil
