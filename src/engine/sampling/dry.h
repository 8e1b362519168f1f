#pragma once
// DRY: tokens that would go on a repetition are made less likely, the more so the longer it is.

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// If the last n tokens of the text are also somewhere before, and n is at least the allowed length,
// then the token that came behind them there loses multiplier * base^(n - allowed) of its logit;
// the longest such n counts. No repetition goes past a breaker: a text that a token or several end,
// or a control token. A token that has a breaker in it loses nothing. (p-e-w 2024,
// text-generation-webui pull request 5677, as llama.cpp has it.)
//
// Costs a walk over the window per token that is chosen. Each choice of a request has its own; the
// prompt is read for the first one, which the others are copied from.
class Dry {
 public:
  // tokenizer: of the tokens, to see breakers; null: there are none. Outlives it.
  Dry(DrySampling settings, const text::Tokenizer* tokenizer);

  void add(Token token);
  // Something that no repetition goes past.
  void add_break();
  void apply(std::span<float> logits);

 private:
  bool ends_breaker(Token token);
  bool has_breaker(std::string_view text) const;
  void find_repetitions(size_t window);
  float penalty(uint32_t length) const;

  DrySampling settings_;
  const text::Tokenizer* tokenizer_;
  size_t longest_breaker_ = 0;  // bytes
  std::vector<Token> text_;     // at least the window, as far as there is text
  uint32_t since_ = 0;          // tokens behind the last breaker
  std::string tail_;            // the last bytes of the text, in which a breaker may have begun
  // Scratch of apply().
  std::vector<uint32_t> same_;
  std::unordered_map<Token, uint32_t> repeated_;  // how long a repetition each would go on
};

}  // namespace kvick::engine
