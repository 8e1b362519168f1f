#pragma once
// SentencePiece's Unigram model (Kudo 2018), as in T5 and XLM-RoBERTa: finds the segmentation of a
// text into pieces that has the highest sum of scores.

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: checked by check_vocabulary(). Errors: scores that are missing or not numbers, no
// unknown token, or an invalid map of characters.
base::Result<std::unique_ptr<Tokenizer>> make_unigram(Vocabulary vocabulary);

}  // namespace kvick::text
