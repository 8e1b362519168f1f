#pragma once
// Another model's answers as batches: what it would have said in each place, and how likely.

#include "train/files/answers_file.h"
#include "train/tasks/tasks.h"

namespace kvick::train {

// Rows are the sequences' first tokens or, of longer ones, any `ctx` of them; shorter ones end in
// targets that are not asked for. One sequence in twenty, and at least one, is held out. data must
// outlive it. Throws Mistake for fewer than two sequences.
std::unique_ptr<Task> answers_of(const AnswerData& data, const Settings& settings);

}  // namespace kvick::train
