#pragma once
// WordPiece as in BERT (Devlin et al. 2019; Hugging Face's BertNormalizer and BertPreTokenizer).
// Splits words at white space and punctuation and around ideographs; in each word, repeatedly takes
// the longest piece from the left. GGUF writes pieces that begin a word with U+2581 in front, and
// other pieces without BERT's "##".

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: checked by check_vocabulary(). Error: no unknown token.
base::Result<std::unique_ptr<Tokenizer>> make_wordpiece(Vocabulary vocabulary);

}  // namespace kvick::text
