#pragma once
// Penalises tokens that occurred before.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling/sampling.h"

namespace kvick::engine {

// Counts the tokens of the window. Adding a token takes constant time; choosing one takes one
// operation per distinct token of the window, and no walk over the window.
class Penalties {
 public:
  struct Strengths {
    float repetition = 1;  // divides positive logits and multiplies negative ones, once per token
    float presence = 0;    // subtracted once from tokens that the answer has
    float frequency = 0;   // subtracted once per occurrence in the answer
    bool any() const { return repetition != 1 || presence != 0 || frequency != 0; }
  };

  // window: how many of the last tokens count. If all strengths are off, nothing is kept.
  Penalties(Strengths strengths, uint32_t window);

  void add(Token token, bool of_prompt);
  void apply(std::span<float> logits) const;

 private:
  struct Count {
    Token token;
    uint32_t prompt = 0, answer = 0;  // occurrences in the window
  };
  struct Seen {
    Token token;
    bool of_prompt;
  };

  void forget(Seen seen);

  Strengths strengths_;
  uint32_t window_;
  std::vector<Seen> last_;  // a ring of window_ tokens; unused if window_ is UINT32_MAX
  size_t oldest_ = 0;
  std::vector<Count> counts_;
  std::unordered_map<Token, uint32_t> where_;  // index in counts_
};

}  // namespace kvick::engine
