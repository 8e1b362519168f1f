#pragma once
// Byte-level BPE, as GPT-2 has it: pre-tokenize, take bytes as symbols, merge by rank.

#include "text/pieces/merges.h"
#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// ids: of all pieces, as check_vocabulary() gives it. Errors: an unknown pre-tokenizer, a merge
// that is not two known pieces or whose result is not one.
base::Result<std::unique_ptr<Tokenizer>> make_bpe(Vocabulary vocabulary, const PieceMap& ids);

// The vocabulary's list of merges, by rank; symbols are tokens. Errors: as above.
base::Result<MergeTable> read_merges(const Vocabulary& vocabulary, const PieceMap& ids);

}  // namespace kvick::text
