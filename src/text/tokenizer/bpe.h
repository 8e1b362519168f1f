#pragma once
// Byte-level BPE as in GPT-2: pre-tokenizes the text, takes bytes as symbols, and merges them by
// rank.

#include "text/pieces/merges.h"
#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// ids: all pieces, from check_vocabulary(). Errors: the pre-tokenizer is unknown, or a merge is not
// of two known pieces or does not result in one.
base::Result<std::unique_ptr<Tokenizer>> make_bpe(Vocabulary vocabulary, const PieceMap& ids);

// Reads the vocabulary's list of merges, which is in order of rank; symbols are tokens. Errors:
// those of merges above.
base::Result<MergeTable> read_merges(const Vocabulary& vocabulary, const PieceMap& ids);

}  // namespace kvick::text
