#pragma once
// SentencePiece's BPE as in Llama 2. Characters are symbols, and the pair that makes the piece with
// the best score is merged first. U+2581 stands for a space, and characters that are not pieces
// become bytes. Gemma 4 differs in taking the order of merges from a list.

#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// vocabulary, ids: checked by check_vocabulary(), which returned ids. Errors: scores that are
// missing or not numbers; merges that do not make pieces; neither an unknown token nor all 256 byte
// tokens.
base::Result<std::unique_ptr<Tokenizer>> make_spm(Vocabulary vocabulary, const PieceMap& ids);

}  // namespace kvick::text
