#pragma once
// Reads the merges of a BPE tokenizer.json.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// GGUF's numbers for tokenizer.ggml.token_type.
enum class PieceKind : uint8_t { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };

struct Pieces {  // [ids]
  std::vector<std::string> texts;
  std::vector<PieceKind> kinds;
};

// Returns whether a piece stands for a byte: "<0x0A>".
bool is_byte_piece(std::string_view piece);

// Returns the merges as "left right", by rank. The file may write "left right" or ["left",
// "right"]. model: the "model" of tokenizer.json.
base::Result<std::vector<std::string>> read_merges(const JsonObject& model);

// Returns scores with which the SentencePiece algorithm (merge the neighbours whose union has the
// best score) gives the same result as the merges. Errors: a merge of unknown pieces; merges that
// no SentencePiece model can produce.
base::Result<std::vector<float>> scores_from_merges(const JsonObject& model, const Pieces& pieces);

}  // namespace kvick::io
