#pragma once
// From logits to a token.

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/kv.h"

namespace kvick::engine {

using Token = kv::Token;

// Applied in this order: bias, penalties, temperature, top-k, top-p, min-p. Values that switch a
// part off are the defaults, but for the temperature: 0 is greedy and needs none of the others.
struct Sampling {
  float temperature = 0.8F;
  uint32_t top_k = 40;  // 0: all
  float top_p = 0.95F;  // smallest set of tokens with at least this probability; 1: all
  float min_p = 0;      // tokens at least this likely, as a share of the likeliest; 0: all
  float repetition_penalty =
      1;  // divides positive and multiplies negative logits of tokens seen (Keskar et al. 2019)
  float presence_penalty = 0;    // subtracted once from tokens seen
  float frequency_penalty = 0;   // subtracted per time seen
  uint32_t penalty_window = 64;  // last tokens that count as seen; 0: none
  uint64_t seed = 0;
  std::map<Token, float> logit_bias;
};

// Errors: a value outside its range, or a biased token outside the vocabulary, named.
base::Status<> check(const Sampling& sampling, uint32_t vocab);

// One generation's choice of tokens; the same seed and logits give the same tokens on every
// machine.
class Sampler {
 public:
  explicit Sampler(Sampling sampling);

  // The next token; the logits are changed on the way. Greedy takes the first of equal ones.
  Token choose(std::span<float> logits);
  // Counts a token, of the prompt or chosen, for the penalties.
  void accept(Token token);

 private:
  struct Candidate {
    Token token;
    float logit;  // at last less the highest, over the temperature
  };

  void penalise(std::span<float> logits) const;
  void take_likeliest(std::span<const float> logits, size_t keep);
  void shortlist(std::span<const float> logits);
  double mass() const;  // of the candidates, relative to the likeliest token
  Token draw();

  Sampling sampling_;
  std::mt19937_64 random_;
  std::vector<Token> seen_;  // the last penalty_window tokens, a ring
  size_t next_seen_ = 0;
  std::vector<Candidate> candidates_;
};

}  // namespace kvick::engine
