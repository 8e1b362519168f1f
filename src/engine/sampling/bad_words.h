#pragma once
// Texts that an answer may not have (vLLM's bad_words).

#include <span>
#include <string>
#include <vector>

#include "engine/sampling/sampling.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

// The tokens of each text, as it begins an answer and as a word behind a space, where that is
// another way to write it: what Sampling::bad_words takes. The same text in other tokens is not
// found, as in vLLM.
std::vector<std::vector<Token>> bad_word_tokens(const text::Tokenizer& tokenizer,
                                                const std::vector<std::string>& words);

class BadWords {
 public:
  // None of them is empty.
  explicit BadWords(std::vector<std::vector<Token>> words);

  // A token of the answer.
  void add(Token token);
  // Forbids the last token of each word whose other tokens are the last ones of the answer.
  void apply(std::span<float> logits) const;

 private:
  std::vector<std::vector<Token>> words_;
  size_t most_before_ = 0;   // tokens of the longest, but for its last
  std::vector<Token> last_;  // the last most_before_ tokens of the answer
};

}  // namespace kvick::engine
