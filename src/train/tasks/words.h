#pragma once
// Which tokens a draft model is to guess: its output layer costs more than its layers, and few
// tokens are most of what is said.

#include "train/files/answers_file.h"

namespace kvick::train {

inline constexpr size_t kWords = 4096;

// The tokens that the model says most often in these answers, by its probabilities, at most kWords
// of those that are there at all; the most frequent first.
std::vector<int32_t> words_of(const AnswerData& data);

// Puts them behind a vocabulary, so that they get into the model's file: as kvick.draft.words.
void add_words(Vocabulary& vocabulary, const AnswerData& data);

}  // namespace kvick::train
