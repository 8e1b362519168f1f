#pragma once
// Finds which known pre-tokenizer a tokenizer.json describes.

#include <string>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// Returns the steps of a normalizer or pre-tokenizer, with a Sequence expanded. If absent: none.
// field and list: "normalizer" and "normalizers", for example.
base::Result<std::vector<JsonObject>> steps_of(const JsonObject& root, std::string_view field,
                                               std::string_view list);

// Returns GGUF's name of a byte-level BPE's pre-tokenizer: "gpt-2", "smollm", "llama-bpe", "qwen2",
// ... root: the whole tokenizer.json. Error: any other pre-tokenizer, which the message describes.
base::Result<std::string> byte_level_pretokenizer(const JsonObject& root);

// Returns whether a byte-level BPE puts texts into Unicode's form NFC. Error: any other normalizer.
base::Result<bool> byte_level_nfc(const JsonObject& root);

// Whether a space is put before the text and, unless `once`, also after special tokens. spared: not
// before a space. normalizes: the normalizer puts it there, before the added tokens with
// "normalized" are found.
struct SpacePrefix {
  bool added = false, spared = false, once = false, normalizes = false;
};
// Reads the SentencePiece-like form. Error: a normalizer or pre-tokenizer that does more than turn
// spaces into U+2581.
base::Result<SpacePrefix> sentencepiece_prefix(const JsonObject& root);

}  // namespace kvick::io
