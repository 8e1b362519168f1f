#pragma once
// SentencePiece's Unigram model (Kudo 2018), as in T5 and XLM-RoBERTa: the segmentation of a text
// into pieces that has the best sum of scores.

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: has passed check_vocabulary(). Errors: scores that are missing or not numbers, no
// unknown token, a map of characters that is none.
base::Result<std::unique_ptr<Tokenizer>> make_unigram(Vocabulary vocabulary);

}  // namespace kvick::text
