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

// The texts one after the other, each followed by the end-of-text token if there is one. The last
// share `held_out` (0 to 1) of each text, from the beginning of a line on, is held out.
TokenData tokenise(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                   double held_out);

}  // namespace kvick::train
