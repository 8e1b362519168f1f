#pragma once
// Chooses a token by its logits.

#include <optional>
#include <random>
#include <span>
#include <vector>

#include "engine/sampling/bad_words.h"
#include "engine/sampling/dry.h"
#include "engine/sampling/mirostat.h"
#include "engine/sampling/penalties.h"
#include "engine/sampling/sampling.h"
#include "engine/sampling/token_weights.h"

namespace kvick::engine {

// Chooses the tokens of one answer. The same seed and logits give the same tokens on every machine
// and under every instruction set.
//
// Tokens are weighed as in token_weights.h. A token less than 3e-11 as likely as the likeliest is
// never chosen. With u uniform in [0, 1), the choice is the first token, by number, at which the
// running sum of the kept tokens' weights exceeds u times their total. XTC draws another number
// before u, for every token. Typical-p, top-n-sigma, the dynamic temperature and Mirostat sum
// inexact numbers, in a fixed order, and use the C library's log and pow: their results are the
// same only on machines with the same C library.
//
// Nothing is sorted: choosing a token takes a few passes over the vocabulary. Filters that are off
// cost nothing.
//
// A copy continues as the original would: draft tokens are drawn with copies. The sampler has all
// state that choices depend on, so a preempted sequence keeps it and continues unchanged.
class Sampler {
 public:
  // tokenizer: needed by DRY's breakers; null: there are none. It outlives the sampler.
  Sampler(Sampling sampling, const kernels::Table& kernels,
          const text::Tokenizer* tokenizer = nullptr);

  // Returns the next token; changes the logits. Greedy takes the first of equally likely tokens.
  Token choose(std::span<float> logits);
  // Adds a token of the prompt, or of the answer, to the text before the next token.
  void accept_prompt(Token token);
  void accept(Token token);
  // Copies the text from another sampler, whose options may differ in the seed only: so a long
  // prompt is added for the first choice of a request alone.
  void accept_as(const Sampler& other);
  // Adds a token of the prompt that is not penalised, and that no repetition extends past.
  void accept_break();

 private:
  struct Kept {
    std::span<float> logits;
    bool all;  // the whole vocabulary; otherwise the tokens of top_
  };
  Kept keep_likeliest(std::span<float> logits, size_t keep);
  void take_likeliest(std::span<const float> logits, size_t keep);
  float scale(std::span<const float> logits, float highest) const;
  size_t choose_with_mirostat(const Kept& kept, float highest, float scale);
  size_t mirostat_tokens(std::span<const float> logits, float highest, float scale);
  Token token_of(size_t chosen, const Kept& kept) const;

  Sampling sampling_;
  const kernels::Table* kernels_;  // a pointer, so that a sampler can be assigned
  std::mt19937_64 random_;
  Penalties penalties_;
  std::optional<BadWords> bad_words_;
  std::optional<Dry> dry_;
  std::optional<Mirostat> mirostat_;
  // Scratch of choose().
  std::vector<Token> top_;  // the tokens of top-k, ascending
  std::vector<float> top_weights_;
  TokenWeights weights_;
};

}  // namespace kvick::engine
