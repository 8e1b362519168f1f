#pragma once
// From logits to a token.

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/answer/penalties.h"
#include "kernels/table/table.h"

namespace kvick::engine {

// Applied in this order: bias, penalties, temperature, top-k, top-p, min-p. Values that switch a
// part off are the defaults, but for the temperature: 0 is greedy and needs none of the others.
struct Sampling {
  float temperature = 0.8F;
  uint32_t top_k = 40;           // 0: all
  float top_p = 0.95F;           // smallest set of tokens with at least this probability; 1: all
  float min_p = 0;               // tokens at least this likely, as a share of the likeliest; 0: all
  float repetition_penalty = 1;  // of tokens of prompt and answer (Keskar et al. 2019); 1: none
  float presence_penalty = 0;    // of tokens of the answer; 0: none
  float frequency_penalty = 0;   // of tokens of the answer, per occurrence; 0: none
  uint32_t penalty_window = 64;  // only the last so many tokens are penalised; 0: none
  uint64_t seed = 0;
  std::map<Token, float> logit_bias;
};

// Errors: a value outside its range, or a biased token outside the vocabulary, named.
base::Status<> check(const Sampling& sampling, uint32_t vocab);

// Chooses the tokens of one answer. The same seed and logits give the same tokens on every machine
// and under every instruction set.
//
// A token's weight is exp((logit - highest) / temperature), rounded to a multiple of 2^-34. Sums of
// up to 2^19 weights are then exact in a double: neither the order nor the vectors in which they
// are computed can change a choice. A token less than 3e-11 as likely as the likeliest is never
// chosen. With u uniform in [0, 1), the choice is the first token, by number, at which the running
// sum of the weights of the tokens that top-k, top-p and min-p keep exceeds u times the whole sum.
//
// Nothing is sorted: a token costs a few passes over the vocabulary.
class Sampler {
 public:
  Sampler(Sampling sampling, const kernels::Table& kernels);

  // The next token; the logits are changed on the way. Greedy takes the first of equal ones.
  Token choose(std::span<float> logits);
  // Counts tokens for the penalties.
  void accept_prompt(Token token) { penalties_.add(token, true); }
  void accept(Token token) { penalties_.add(token, false); }

 private:
  void take_likeliest(std::span<const float> logits, size_t keep);
  void keep_nucleus(std::span<float> weights);
  void keep_above(std::span<float> weights, float least, size_t last_equal);
  size_t draw(std::span<const float> weights);

  Sampling sampling_;
  const kernels::Table* kernels_;  // a pointer, so that a sampler can be assigned
  std::mt19937_64 random_;
  Penalties penalties_;
  // Scratch of choose().
  std::vector<Token> top_;  // the tokens of top-k, ascending
  std::vector<float> top_weights_;
  std::vector<double> sums_;  // of each kWeightBlock weights
  std::vector<double> bins_;
};

}  // namespace kvick::engine
