#pragma once
// SentencePiece's BPE as in Llama-2: characters are symbols, the pair that makes the piece with the
// best score is merged first, U+2581 stands for the space, and characters that are no piece become
// bytes. Gemma 4 has the same but takes the order of merges from a list.

#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: has passed check_vocabulary(), which gave ids. Errors: scores that are missing or not
// numbers, or merges that make no pieces; neither an unknown token nor all 256 byte tokens.
base::Result<std::unique_ptr<Tokenizer>> make_spm(Vocabulary vocabulary, const PieceMap& ids);

}  // namespace kvick::text
