#pragma once
// Tokenizes texts for training: the one part of it that needs kvick's tokenizers.

#include <span>

#include "base/result.h"
#include "text/tokenizer/tokenizer.h"
#include "train/files/tokens_file.h"

namespace kvick::train {

// Returns a vocabulary in which every byte is a token and <|endoftext|> ends a text.
text::Vocabulary byte_vocabulary();

// Returns the keys tokenizer.ggml.* as a model file holds them.
Vocabulary written(const text::Vocabulary& vocabulary);

// Returns the texts in sequence, each followed by the end-of-text token if there is one. The last
// share `held_out` (0 to 1) of each text, from the beginning of a line, is held out.
TokenData tokenise(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                   double held_out);

}  // namespace kvick::train
