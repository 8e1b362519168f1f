#pragma once
// A text as token ids, with its vocabulary. `kvick train tokens` writes it; training reads it on a
// machine that has no tokenizer.

#include <cstdint>
#include <string>
#include <vector>

namespace kvick::train {

// The keys tokenizer.ggml.* in GGUF's encoding, so that an exported model has its tokenizer.
struct Vocabulary {
  uint64_t pairs = 0;
  std::string bytes;
};

struct TokenData {
  uint32_t vocab = 0;  // every token is below it
  Vocabulary vocabulary;
  std::vector<int32_t> train, held_out;
};

// Writes two bytes per token if the vocabulary allows, else four.
void write_tokens(const std::string& path, const TokenData& data);
// Throws Mistake if the file is not of this kind.
TokenData read_tokens(const std::string& path);

}  // namespace kvick::train
