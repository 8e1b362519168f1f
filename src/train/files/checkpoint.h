#pragma once
// A checkpoint holds all that a run needs to resume exactly, all that a model file is made of, or a
// model file's weights for a new run.

#include <string>
#include <vector>

#include "train/files/tokens_file.h"
#include "train/settings/settings.h"

namespace kvick::train {

// A point of the loss curve: the means since the previous point, and those over held-out data (NaN:
// not measured).
struct LogPoint {
  uint64_t step = 0;
  double loss = 0, held_out = 0, accuracy = 0, seconds = 0;
};

// Holds no random generator: every step derives its random numbers from the seed and its own
// number.
struct Checkpoint {
  Settings settings;
  uint64_t data_tokens = 0;  // tokens of the training text; 0: made-up data
  uint64_t step = 0;         // steps done
  double seconds = 0;        // spent on those steps
  double sum_loss = 0;       // sum of losses since the last point of the log
  uint64_t sum_steps = 0;
  std::vector<LogPoint> log;
  Vocabulary vocabulary;  // empty: made-up tokens
  // [elements of tensors_of(settings.model)], in that order.
  std::vector<float> values;
  std::vector<float> best;  // the values with the least held-out loss so far
  // AdamW's two moments, [elements of trained_part(settings)]; empty if the values come from a
  // model file and are untrained.
  std::vector<float> first, second;
  double best_held_out = 0;
};

// `best` may be empty if it equals `values`.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// Throws Mistake if the file is not a checkpoint.
Checkpoint read_checkpoint(const std::string& path);

}  // namespace kvick::train
