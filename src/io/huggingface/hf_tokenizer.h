#pragma once
// Maps a Hugging Face tokenizer to GGUF's keys.

#include <string>

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/huggingface/hf_config.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// One file of a folder; empty text: it does not exist.
struct NamedText {
  std::string name;
  std::string_view text;
};
struct HfTokenizerFiles {
  NamedText tokenizer;                // tokenizer.json
  NamedText tokenizer_config;         // tokenizer_config.json
  NamedText generation_config;        // generation_config.json
  NamedText chat_template;            // chat_template.jinja, Jinja source
  NamedText processor_template = {};  // chat_template.json, of models for images or sound
};

// Adds to `out`: tokenizer.ggml.{model, pre, tokens, token_type, merges | scores, add_space_prefix,
// add_bos_token, add_eos_token, {bos,eos,unknown,padding}_token_id},
// tokenizer.chat_template[.NAME], and where they are needed
//   kvick.eos_token_ids: more than one token ends a generation;
//   kvick.{strips_left, strips_right, whole_word, normalized}_ids: added tokens with "lstrip",
//     "rstrip", "single_word" and "normalized", the last only if the normalizer puts no space
//     before texts;
//   kvick.leftmost_wins: of overlapping added tokens the leftmost is taken, then the longest;
//   kvick.before_ids, kvick.behind_ids: tokens around a text other than BOS and EOS alone;
//   kvick.pre: takes precedence over tokenizer.ggml.pre, which is the nearest name of GGUF's;
//   kvick.nfc: texts are put into form NFC;
//   kvick.space_prefix_spared: no space goes before a space;
//   kvick.space_prefix_once: no space goes after special tokens.
// Ids without a token, up to the model's vocab_size, become unused tokens "[PAD<id>]"; added tokens
// beyond it are omitted. Error: a tokenizer that splits text in a way that kvick does not know.
base::Status<> map_tokenizer(const HfTokenizerFiles& files, const HfConfig& config,
                             const JsonObject& config_json, Metadata& out);

}  // namespace kvick::io
