#pragma once
// Mirostat (Basu et al. 2021, arXiv:2007.14966): keeps the surprise of an answer's tokens near a
// target by leaving more or fewer of them.

#include <cstddef>
#include <span>

#include "engine/sampling/sampling.h"

namespace kvick::engine {

// Its state is one number, mu, which each choice changes by eta * (surprise - tau); it begins at
// 2 * tau. Surprises are in bits.
class Mirostat {
 public:
  static constexpr size_t kFirst = 100;  // the paper's m: the likeliest that algorithm 1 looks at

  explicit Mirostat(const MirostatSampling& settings)
      : settings_(settings), mu_(2.0 * settings.tau) {}

  // Algorithm 1: how many of the likeliest of `vocab` tokens are left, by the exponent of Zipf's
  // law that fits the first of them. descending: their logits below the highest, over the
  // temperature.
  size_t most_tokens(std::span<const float> descending, size_t vocab) const;
  // Algorithm 2: the share that a token has at least; none may reach it, and the likeliest is left.
  double least_share() const;
  // share: the probability of the chosen token among the tokens that were left.
  void observe(double share);
  double mu() const { return mu_; }

 private:
  MirostatSampling settings_;
  double mu_;
};

}  // namespace kvick::engine
