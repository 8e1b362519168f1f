#pragma once
// DRY makes tokens that would continue a repetition less likely: the longer it is, the less likely.

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// If the last n tokens of the text also occur earlier, and n is at least the allowed length, then
// the token that followed them there loses multiplier * base^(n - allowed) of its logit, for the
// longest n. No repetition extends past a breaker: a control token, or a text, also one that spans
// several tokens. A token that contains a breaker loses nothing. (p-e-w 2024, text-generation-webui
// pull request 5677, as in llama.cpp.)
//
// Each chosen token costs a walk over the window. Each choice of a request has its own Dry; the
// prompt is added to the first one, and the others are copies of it.
class Dry {
 public:
  // tokenizer: finds the breakers in tokens; null: there are no breakers. It outlives this object.
  Dry(DrySampling settings, const text::Tokenizer* tokenizer);

  void add(Token token);
  // Adds a break that no repetition extends past.
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
  std::vector<Token> text_;     // the last tokens: at least the window
  uint32_t since_ = 0;          // tokens since the last breaker
  std::string tail_;            // the last bytes of the text, in which a breaker may have begun
  // Scratch of apply().
  std::vector<uint32_t> same_;
  std::unordered_map<Token, uint32_t> repeated_;  // length of the repetition that it continues
};

}  // namespace kvick::engine
