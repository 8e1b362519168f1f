#pragma once
// SentencePiece's BPE, as Llama-2 has it: characters as symbols, the pair that makes the piece with
// the best score is merged first, U+2581 stands for the space, and what is no piece falls back to
// bytes. Gemma 4 has the same but for the order of merges, which a list says.

#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary: has passed check_vocabulary(), which gave ids. Errors: scores that are missing or not
// numbers, or merges that make no pieces; neither an unknown token nor all 256 byte tokens.
base::Result<std::unique_ptr<Tokenizer>> make_spm(Vocabulary vocabulary, const PieceMap& ids);

}  // namespace kvick::text
