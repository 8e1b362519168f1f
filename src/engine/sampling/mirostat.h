#pragma once
// Mirostat (Basu et al. 2021, arXiv:2007.14966): keeps the surprise of an answer's tokens near a
// target by keeping more or fewer candidate tokens.

#include <cstddef>
#include <span>

#include "engine/sampling/sampling.h"

namespace kvick::engine {

// Its state is one number, mu, which begins at 2 * tau; each choice lowers it by eta * (surprise -
// tau). Surprises are in bits.
class Mirostat {
 public:
  static constexpr size_t kFirst = 100;  // the paper's m: likeliest tokens that algorithm 1 reads

  explicit Mirostat(const MirostatSampling& settings)
      : settings_(settings), mu_(2.0 * settings.tau) {}

  // Algorithm 1: returns how many of `vocab` tokens to keep, the likeliest, by the exponent of
  // Zipf's law that fits the first of them. descending: (logit - highest) / temperature of the
  // likeliest tokens.
  size_t most_tokens(std::span<const float> descending, size_t vocab) const;
  // Algorithm 2: returns the least probability of a kept token. If none has it, keep the likeliest.
  double least_share() const;
  // share: the probability of the chosen token among the kept tokens.
  void observe(double share);
  double mu() const { return mu_; }

 private:
  MirostatSampling settings_;
  double mu_;
};

}  // namespace kvick::engine
