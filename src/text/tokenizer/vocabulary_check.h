#pragma once

#include "base/result.h"
#include "text/pieces/piece_map.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// Checks that a vocabulary is consistent: sizes, ids, kinds, scores, names. The code that reads a
// model checks what only that model needs. Returns a map from pieces to ids, without empty pieces.
base::Result<PieceMap> check_vocabulary(const Vocabulary& vocabulary);

// Returns a piece for an error message: in quotes, printable, and cut if it is long.
std::string show_piece(std::string_view piece);

// Returns the byte that a kByte piece <0xXX> names, or nullopt.
std::optional<uint8_t> byte_of_name(std::string_view piece);

}  // namespace kvick::text
