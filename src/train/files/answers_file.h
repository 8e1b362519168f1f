#pragma once
// What a model says to prompts and how likely it held which tokens: what `kvick train answers`
// writes and a draft model learns from.

#include "train/files/tokens_file.h"

namespace kvick::train {

struct AnswerData {
  uint32_t vocab = 0;  // every token is below
  Vocabulary vocabulary;
  uint32_t top = 0;            // tokens that are kept of each distribution, at least 1
  std::vector<uint64_t> ends;  // of each sequence, a prompt and its answer, among the tokens
  std::vector<int32_t> tokens;
  // [tokens][top]: the likeliest tokens in that place, best first, and their probabilities under
  // the model. Nothing stands before a sequence's first token: there the probabilities are 0.
  std::vector<int32_t> likeliest;
  std::vector<float> chances;
};

void write_answers(const std::string& path, const AnswerData& data);
// Throws Mistake for what is no such file.
AnswerData read_answers(const std::string& path);

}  // namespace kvick::train
