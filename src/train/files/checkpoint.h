#pragma once
// All that a run needs to go on as if it had not stopped, all that a model file is made of, and a
// model file's weights for a run to begin with.

#include <string>
#include <vector>

#include "train/files/tokens_file.h"
#include "train/settings/settings.h"

namespace kvick::train {

// A point of the loss curve: means since the point before, and over held-out data (NaN: not
// measured then).
struct LogPoint {
  uint64_t step = 0;
  double loss = 0, held_out = 0, accuracy = 0, seconds = 0;
};

// There is no generator in it: every step draws from numbers made of the seed and its own number.
struct Checkpoint {
  Settings settings;
  uint64_t data_tokens = 0;  // tokens of the training text; 0: made-up data
  uint64_t step = 0;         // steps done
  double seconds = 0;        // spent on them
  double sum_loss = 0;       // since the last point of the log, over
  uint64_t sum_steps = 0;
  std::vector<LogPoint> log;
  Vocabulary vocabulary;  // empty: made-up tokens
  // [elements of tensors_of(settings.model)], one after the other.
  std::vector<float> values;
  std::vector<float> best;  // the values with the least held-out loss so far
  // AdamW's two moments, [elements of trained_part(settings)]; empty: of a model file, untrained.
  std::vector<float> first, second;
  double best_held_out = 0;
};

// `best` may be empty if it is `values`.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// Throws Mistake if it is no checkpoint.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace kvick::train
