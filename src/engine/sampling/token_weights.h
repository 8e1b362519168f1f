#pragma once
// The weights of the candidates for the next token, and the filters that keep some of them.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::engine {

// A token's weight is exp((logit - highest) * scale), rounded to a multiple of 2^-34. Sums of up to
// 2^19 weights are then exact in a double, so neither the order of summation nor the vector length
// can change a choice (ADR 25). Indices are those of the logits that were weighed.
//
// All functions work on the logits of the last weigh(), which the caller must keep alive.
class TokenWeights {
 public:
  // Overwrites the logits with weights. with_surprise: needed by keep_typical() and entropy().
  void weigh(const kernels::Table& kernels, std::span<float> logits, float highest, float scale,
             bool with_surprise = false);
  double total() const;
  float highest() const;
  double share(size_t i) const { return double{weights_[i]} / total(); }
  double entropy() const;  // in nats; needs with_surprise

  // The filters; each keeps at least one token.
  // Top-p: keeps the likeliest tokens, of equal ones the first, until they have this share.
  void keep_nucleus(float share);
  // Typical-p: keeps the tokens whose surprise, -log of the probability, is nearest to the expected
  // one, of equal ones the first, until they have this share.
  void keep_typical(float share);
  // Keeps tokens of at least this weight, which must be above 0 and not above the highest.
  void keep_above(float least) { keep_above(least, weights_.size()); }
  // XTC: of the tokens with at least this share, keeps only the unlikeliest; of equal ones the
  // last.
  void drop_top(float share);

  // Returns the first token at which the running sum of weights exceeds u * total; u in [0, 1).
  size_t draw(double u) const;

 private:
  void keep_above(float least, size_t last_equal);

  std::span<float> weights_;
  std::vector<double> sums_;  // sum of each block of kWeightBlock weights
  // Scratch.
  std::vector<double> bins_;
  std::vector<float> scaled_;  // (logit - highest) * scale: minus the surprise, plus a constant
  std::vector<std::pair<double, size_t>> strangest_;
};

// Returns the entropy of softmax(logits) divided by its maximum, log(logits.size()).
double entropy_share(const kernels::Table& kernels, std::span<const float> logits, float highest);

}  // namespace kvick::engine
