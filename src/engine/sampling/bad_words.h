#pragma once
// Texts that an answer must not contain (vLLM's bad_words).

#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// Returns the tokens of each text for Sampling::bad_words: without a space before it and, where the
// tokens differ, with one. As in vLLM, the same text in other tokens is not found.
std::vector<std::vector<Token>> bad_word_tokens(const text::Tokenizer& tokenizer,
                                                const std::vector<std::string>& words);

class BadWords {
 public:
  // No word may be empty.
  explicit BadWords(std::vector<std::vector<Token>> words);

  // Adds a token of the answer.
  void add(Token token);
  // Forbids the last token of each word if the answer ends with the word's other tokens.
  void apply(std::span<float> logits) const;

 private:
  std::vector<std::vector<Token>> words_;
  size_t most_before_ = 0;   // tokens of the longest word, without its last token
  std::vector<Token> last_;  // the last most_before_ tokens of the answer
};

}  // namespace kvick::engine
