#include "engine/sampling/bad_words.h"

#include <algorithm>
#include <cmath>

namespace kvick::engine {

std::vector<std::vector<Token>> bad_word_tokens(const text::Tokenizer& tokenizer,
                                                const std::vector<std::string>& words) {
  std::vector<std::vector<Token>> all;
  for (const std::string& word : words) {
    const size_t begin = std::min(word.find_first_not_of(' '), word.size());
    for (const std::string& text : {word.substr(begin), " " + word.substr(begin)}) {
      std::vector<Token> tokens = tokenizer.encode(text, false, false);
      // Words given with and without a space would be there twice.
      const bool found = std::find(all.begin(), all.end(), tokens) != all.end();
      if (!tokens.empty() && !found) all.push_back(std::move(tokens));
    }
  }
  return all;
}

BadWords::BadWords(std::vector<std::vector<Token>> words) : words_(std::move(words)) {
  for (const std::vector<Token>& word : words_)
    most_before_ = std::max(most_before_, word.size() - 1);
}

void BadWords::add(Token token) {
  if (most_before_ == 0) return;
  if (last_.size() == most_before_) last_.erase(last_.begin());
  last_.push_back(token);
}

void BadWords::apply(std::span<float> logits) const {
  for (const std::vector<Token>& word : words_) {
    const size_t before = word.size() - 1;
    if (before > last_.size()) continue;
    if (!std::equal(word.begin(), word.end() - 1, last_.end() - static_cast<ptrdiff_t>(before)))
      continue;
    logits[static_cast<size_t>(word.back())] = -INFINITY;
  }
}

}  // namespace kvick::engine
