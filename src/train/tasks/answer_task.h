#pragma once
// Another model's answers as batches: its likely tokens at each position, with probabilities.

#include "train/files/answers_file.h"
#include "train/tasks/tasks.h"

namespace kvick::train {

// A row is a sequence: one longer than `ctx` tokens gives any `ctx` of them, and a shorter one is
// padded with targets kNotAsked. One sequence in twenty, at least one, is held out. data must
// outlive it. Throws Mistake for fewer than two sequences.
std::unique_ptr<Task> answers_of(const AnswerData& data, const Settings& settings);

}  // namespace kvick::train
