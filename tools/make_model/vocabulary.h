#pragma once
// Small made-up vocabularies that behave like real ones: every byte has a token, and merges build
// sequences of letters.

#include <cstdint>
#include <string>
#include <vector>

#include "make_model/spec.h"

#include "base/result.h"

namespace kvick::tools {

// GGUF's numbers of token types (tokenizer.ggml.token_type).
enum TokenType : int32_t {
  kNormalToken = 1,
  kUnknownToken,
  kControlToken,
  kUserToken,
  kUnusedToken,
  kByteToken
};

struct MadeVocabulary {
  std::string model;  // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre;    // tokenizer.ggml.pre
  std::vector<std::string> pieces;
  std::vector<int32_t> types;
  std::vector<float> scores;        // for "llama"
  std::vector<std::string> merges;  // for "gpt2"
  uint32_t bos = 0, eos = 0;
  bool add_bos = false;
};

// Returns a vocabulary of exactly `size` tokens. Error: too small for the bytes and the special
// tokens, or too large for the merges.
base::Result<MadeVocabulary> make_vocabulary(VocabularyKind kind, uint32_t size);

// ChatML, as used by SmolLM2 and Qwen.
extern const char* const kChatTemplate;

}  // namespace kvick::tools
