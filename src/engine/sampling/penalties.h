#pragma once
// Penalties for tokens that were seen before.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sampling/sampling.h"

namespace kvick::engine {

// Which tokens the last ones were, and how often. Costs a constant per token that is added and, per
// token that is chosen, one addition per different token: there is no walk over all that was seen.
class Penalties {
 public:
  struct Strengths {
    float repetition = 1;  // divides positive logits and multiplies negative ones, once a token
    float presence = 0;    // subtracted once from tokens of the answer
    float frequency = 0;   // subtracted once per occurrence in the answer
    bool any() const { return repetition != 1 || presence != 0 || frequency != 0; }
  };

  // window: the number of last tokens that count. Without strengths nothing is kept.
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
  std::vector<Seen> last_;  // a ring, once it has window_ tokens; unused without a limit
  size_t oldest_ = 0;
  std::vector<Count> counts_;
  std::unordered_map<Token, uint32_t> where_;  // in counts_
};

}  // namespace kvick::engine
