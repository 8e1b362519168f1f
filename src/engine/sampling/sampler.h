#pragma once
// From logits to a token.

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
// Tokens are weighed as token_weights.h says. A token less than 3e-11 as likely as the likeliest is
// never chosen. With u uniform in [0, 1), the choice is the first token, by number, at which the
// running sum of the weights of the tokens that are left exceeds u times the whole sum. XTC draws
// another number before, with every token. Typical-p, top-n-sigma, the dynamic temperature and
// Mirostat sum numbers that are not exact, in a fixed order, and use the C library's log and pow:
// for them machines must have the same one.
//
// Nothing is sorted: a token costs a few passes over the vocabulary. What is off costs nothing.
//
// A copy goes on as the original would: drafts are drawn with copies. All that a choice depends on
// is in here, so a sequence that is preempted keeps its sampler and goes on as if it had not been.
class Sampler {
 public:
  // tokenizer: of the tokens, which DRY's breakers need; null: there are none. Outlives it.
  Sampler(Sampling sampling, const kernels::Table& kernels,
          const text::Tokenizer* tokenizer = nullptr);

  // The next token; the logits are changed on the way. Greedy takes the first of equal ones.
  Token choose(std::span<float> logits);
  // Tells of tokens before the next one.
  void accept_prompt(Token token);
  void accept(Token token);
  // What another sampler of the same options, but for the seed, was told so far: a long prompt is
  // told to the first of a request's choices alone.
  void accept_as(const Sampler& other);
  // A token of the prompt that is not penalised, and that no repetition goes past.
  void accept_break();

 private:
  struct Kept {
    std::span<float> logits;
    bool all;  // of the vocabulary; else those of top_
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
