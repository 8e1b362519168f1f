#pragma once
// WordPiece as BERT has it (Devlin et al. 2019; Hugging Face's BertNormalizer and
// BertPreTokenizer): words by white space and punctuation, ideographs alone, and of each word the
// longest pieces from its beginning on. GGUF writes pieces that begin a word with U+2581 in front,
// and others without BERT's "##".

#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: has passed check_vocabulary(). Error: no unknown token.
base::Result<std::unique_ptr<Tokenizer>> make_wordpiece(Vocabulary vocabulary);

}  // namespace kvick::text
