#pragma once
// Text as token numbers, with the vocabulary that they belong to: what `kvick train tokens` writes
// and training reads, on a machine that has no tokenizer.

#include <cstdint>
#include <string>
#include <vector>

namespace kvick::train {

// tokenizer.ggml.* as GGUF holds it, so that an exported model has its tokenizer.
struct Vocabulary {
  uint64_t pairs = 0;
  std::string bytes;
};

struct TokenData {
  uint32_t vocab = 0;  // every token is below
  Vocabulary vocabulary;
  std::vector<int32_t> train, held_out;
};

// Tokens take two bytes each where the vocabulary allows.
void write_tokens(const std::string& path, const TokenData& data);
// Throws Mistake if it is not a file of this kind.
TokenData read_tokens(const std::string& path);

}  // namespace kvick::train
