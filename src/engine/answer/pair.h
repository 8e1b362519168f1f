#pragma once
// Encodes two texts as one prompt, for models that score how well the second answers the first.

#include "text/tokenizer/tokenizer.h"

namespace kvick::engine {

struct TextPair {
  std::vector<text::Token> tokens;
  uint32_t second = 0;  // where the second text begins; with a template: after all tokens
};

// Encodes the texts in the vocabulary's form: BERT's [CLS] query [SEP] document [SEP], RoBERTa's
// with two separators between, or a chat model's prompt (Vocabulary::pair_template).
TextPair encode_pair(const text::Tokenizer& tokenizer, std::string_view query,
                     std::string_view document);

}  // namespace kvick::engine
