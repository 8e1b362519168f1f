#pragma once
// Chooses the tokens that a draft model can predict. Its output layer costs more than its other
// layers, and few tokens make up most text.

#include "train/files/answers_file.h"

namespace kvick::train {

inline constexpr size_t kWords = 4096;

// Returns the tokens most frequent in these answers, by the model's probabilities, most frequent
// first: at most kWords, and only tokens that occur.
std::vector<int32_t> words_of(const AnswerData& data);

// Appends these tokens to a vocabulary as kvick.draft.words, so that they are stored in the model's
// file.
void add_words(Vocabulary& vocabulary, const AnswerData& data);

}  // namespace kvick::train
