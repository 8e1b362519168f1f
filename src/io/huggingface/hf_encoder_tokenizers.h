#pragma once
// Reads the tokenizers of encoders: the WordPiece of BERT and the Unigram of XLM-RoBERTa.

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

// Reads the pieces of a Unigram model, a list of pairs of a piece and its score.
base::Status<> read_unigram_pieces(const JsonObject& model, uint64_t vocabulary, Pieces& pieces);
// Adds to `out`: tokenizer.ggml.{model, pre, scores, unknown_token_id, precompiled_charsmap,
// add_space_prefix, remove_extra_whitespaces}. Error: the tokenizer does not normalise texts with a
// map of characters, or does not put one mark for each stretch of white space.
base::Status<> map_unigram(const JsonObject& root, const JsonObject& model, uint64_t vocabulary,
                           Metadata& out);

}  // namespace kvick::io
