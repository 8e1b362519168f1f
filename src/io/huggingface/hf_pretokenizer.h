#pragma once
// Which of the known ways of cutting text into words a tokenizer.json asks for.

#include <string>

#include "base/result.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// The name that GGUF gives a byte-level BPE's pre-tokenizer: "gpt-2", "smollm", "llama-bpe",
// "qwen2". `root` is the whole tokenizer.json. Error: any other, with what it is; a normalizer that
// changes text beyond Unicode's NFC.
base::Result<std::string> byte_level_pretokenizer(const JsonObject& root);

// Whether a space is put before the text, and behind special tokens, too, unless `once`.
struct SpacePrefix {
  bool added = false, once = false;
};
// For the SentencePiece-like form. Error: a normalizer or pre-tokenizer that does more than turn
// spaces into U+2581.
base::Result<SpacePrefix> sentencepiece_prefix(const JsonObject& root);

}  // namespace kvick::io
