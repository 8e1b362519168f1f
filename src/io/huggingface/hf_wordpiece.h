#pragma once
// Reads the WordPiece tokenizer of BERT.

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/huggingface/hf_merges.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// Puts pieces into GGUF's form: U+2581 stands before those that begin a word, "##" no longer before
// the others. Adds to `out`: tokenizer.ggml.{model, unknown_token_id, normalizer.lowercase,
// normalizer.strip_accents}. root: tokenizer.json; model: its "model". Error: the tokenizer
// normalises or splits texts in another way than BERT's.
base::Status<> map_wordpiece(const JsonObject& root, const JsonObject& model, Pieces& pieces,
                             Metadata& out);

}  // namespace kvick::io
