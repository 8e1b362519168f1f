#pragma once
// SentencePiece's BPE, as Llama-2 has it: characters as symbols, the pair that makes the piece with
// the best score is merged first, U+2581 stands for the space, and what is no piece falls back to
// bytes.

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: has passed check_vocabulary(). Errors: scores that are missing or not numbers;
// neither an unknown token nor all 256 byte tokens.
base::Result<std::unique_ptr<Tokenizer>> make_spm(Vocabulary vocabulary);

}  // namespace kvick::text
