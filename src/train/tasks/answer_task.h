#pragma once
// A task with another model's answers: its likely tokens at each position, with probabilities.

#include "train/files/answers_file.h"
#include "train/tasks/tasks.h"

namespace kvick::train {

// Each row is one sequence. A sequence longer than `ctx` tokens gives a random window of `ctx`
// tokens; a shorter one is padded with targets kNotAsked. One sequence in twenty, at least one, is
// held out. data must outlive the task. Throws Mistake for fewer than two sequences.
std::unique_ptr<Task> answers_of(const AnswerData& data, const Settings& settings);

}  // namespace kvick::train
