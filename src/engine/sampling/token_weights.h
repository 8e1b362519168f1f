#pragma once
// How likely the tokens are that may come next, and the ways to leave only some of them.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/table/table.h"

namespace kvick::engine {

// A token's weight is exp((logit - highest) * scale), rounded to a multiple of 2^-34. Sums of up to
// 2^19 weights are then exact in a double: neither the order nor the vectors in which they are
// computed can change a choice (ADR 25). Indices are those of the logits that were weighed.
//
// All is of the logits of the last weigh(), which are the caller's and must still be there.
class TokenWeights {
 public:
  // The logits become weights in their place. with_surprise: for keep_typical().
  void weigh(const kernels::Table& kernels, std::span<float> logits, float highest, float scale,
             bool with_surprise = false);
  double total() const;
  float highest() const;
  double share(size_t i) const { return double{weights_[i]} / total(); }
  double entropy() const;  // in nats; weighed with surprise

  // Each of these leaves at least one token.
  // Top-p: the likeliest tokens, of equal ones the first, until they have this share.
  void keep_nucleus(float share);
  // Those whose surprise, -log of the probability, is nearest to the expected one, of equal ones
  // the first, until they have this share.
  void keep_typical(float share);
  // Those of at least this weight, which is above 0 and not above the highest.
  void keep_above(float least) { keep_above(least, weights_.size()); }
  // XTC: of the tokens with at least this share only the unlikeliest, of equal ones the last.
  void drop_top(float share);

  // The first token at which the running sum of weights exceeds u times the total; u in [0, 1).
  size_t draw(double u) const;

 private:
  void keep_above(float least, size_t last_equal);

  std::span<float> weights_;
  std::vector<double> sums_;  // of each kWeightBlock weights
  // Scratch.
  std::vector<double> bins_;
  std::vector<float> scaled_;  // (logit - highest) * scale: minus the surprise, but for a constant
  std::vector<std::pair<double, size_t>> strangest_;
};

// The entropy of softmax(logits), divided by the largest possible for logits.size() tokens.
double entropy_share(const kernels::Table& kernels, std::span<const float> logits, float highest);

}  // namespace kvick::engine
