#pragma once
// A fact planted in a text, and what asks for it.

#include <random>
#include <span>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

// "The secret number of the blue house is 48213.", of one of many houses, boats and so on. The
// question is the beginning of that sentence, which goes on with the answer: a small model that
// was not taught to answer questions knows how to go on, too, and its answer needs no parsing.
struct Needle {
  std::vector<engine::Token> fact, question, answer;
};
// The same for the same seed.
Needle needle_of(const text::Tokenizer& tokenizer, uint32_t seed);

struct Planting {
  uint32_t length = 0;  // tokens, question and answer included
  double depth = 0;     // of the fact in the text: 0 at its beginning, 1 at its end
  size_t from = 0;      // the token of the haystack that the text begins with
};
// What is read before the question: the text with the fact behind the end of a sentence near to the
// depth, of length - question - answer tokens. Error: the haystack or the length are too short.
base::Result<std::vector<engine::Token>> plant(const text::Tokenizer& tokenizer,
                                               const Needle& needle,
                                               std::span<const engine::Token> haystack,
                                               const Planting& planting);

}  // namespace kvick::lab
