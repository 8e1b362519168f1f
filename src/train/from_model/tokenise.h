#pragma once
// From texts to a file of tokens: the one part of training that needs kvick's tokenizers.

#include <span>

#include "base/result.h"
#include "text/tokenizer/tokenizer.h"
#include "train/files/tokens_file.h"

namespace kvick::train {

// Every byte is a token, and <|endoftext|> ends a text.
text::Vocabulary byte_vocabulary();

// tokenizer.ggml.* as a model file says them.
Vocabulary written(const text::Vocabulary& vocabulary);

// The texts one after the other, each with the token that ends a text behind it where there is one.
// The last `held_out` of each, from the beginning of a line on, is kept apart from the others.
TokenData tokenise(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                   double held_out);

}  // namespace kvick::train
