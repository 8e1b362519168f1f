#pragma once
// A fact planted in a text, and the question about it.

#include <random>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

// "The secret number of the blue house is 48213.", for one of many houses, boats and so on. The
// question is the beginning of that sentence, and its continuation is the answer. So even a small
// model that was not trained to answer questions can continue it, and its answer needs no parsing.
struct Needle {
  std::vector<engine::Token> fact, question, answer;
};
// Returns the same needle for the same seed.
Needle needle_of(const text::Tokenizer& tokenizer, uint32_t seed);

struct Planting {
  uint32_t length = 0;  // tokens, question and answer included
  double depth = 0;     // position of the fact in the text: 0 at its beginning, 1 at its end
  size_t from = 0;      // first token of the haystack that is used
};
// Returns the tokens to read before the question: length - question - answer tokens of text, with
// the fact after the end of a sentence near the given depth. Error: the haystack or the length is
// too short.
base::Result<std::vector<engine::Token>> plant(const text::Tokenizer& tokenizer,
                                               const Needle& needle,
                                               std::span<const engine::Token> haystack,
                                               const Planting& planting);

}  // namespace kvick::lab
