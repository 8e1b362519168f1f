#pragma once
// A file of a model's answers to prompts, with the most likely tokens and their probabilities.
// `kvick train answers` writes it, and a draft model learns from it.

#include "train/files/tokens_file.h"

namespace kvick::train {

struct AnswerData {
  uint32_t vocab = 0;  // every token is below it
  Vocabulary vocabulary;
  uint32_t top = 0;            // tokens kept of each distribution, at least 1
  std::vector<uint64_t> ends;  // where each sequence (prompt and answer) ends in tokens
  std::vector<int32_t> tokens;
  // [tokens][top]: the likeliest tokens at each position, best first, and their probabilities under
  // the model. The first token of a sequence has no context: its probabilities are 0.
  std::vector<int32_t> likeliest;
  std::vector<float> chances;
};

void write_answers(const std::string& path, const AnswerData& data);
// Throws Mistake if the file is not of this kind.
AnswerData read_answers(const std::string& path);

}  // namespace kvick::train
