#pragma once
// A model's answers to prompts with its most likely tokens and their probabilities. `kvick train
// answers` writes it, and a draft model learns from it.

#include "train/files/tokens_file.h"

namespace kvick::train {

struct AnswerData {
  uint32_t vocab = 0;  // every token is below
  Vocabulary vocabulary;
  uint32_t top = 0;            // tokens that are kept of each distribution, at least 1
  std::vector<uint64_t> ends;  // of each sequence, a prompt and its answer, among the tokens
  std::vector<int32_t> tokens;
  // [tokens][top]: the likeliest tokens at that position, best first, and their probabilities under
  // the model. A sequence's first token has no context: its probabilities are 0.
  std::vector<int32_t> likeliest;
  std::vector<float> chances;
};

void write_answers(const std::string& path, const AnswerData& data);
// Throws Mistake if it is not a file of this kind.
AnswerData read_answers(const std::string& path);

}  // namespace kvick::train
