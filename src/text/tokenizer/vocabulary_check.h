#pragma once

#include "base/result.h"
#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// Whether a vocabulary holds together: sizes, ids, kinds, scores, names; what each model needs
// beyond that is checked where it is read. The result finds ids by piece (empty pieces are not in
// it).
base::Result<PieceMap> check_vocabulary(const Vocabulary& vocabulary);

// A piece for an error message: in quotes, printable, not too long.
std::string show_piece(std::string_view piece);

// The byte that a kByte piece <0xXX> names, or nothing.
std::optional<uint8_t> byte_of_name(std::string_view piece);

}  // namespace kvick::text
