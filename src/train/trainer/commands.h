#pragma once
// The commands of kvick-train. Each returns the exit status and throws Mistake for a user's one.

#include "train/settings/options.h"

namespace kvick::train {

// lm, bct, draft and maple: what is trained, whether on another model's answers, and whether with
// a predictor of the rows that it reads.
struct Kind {
  std::string arch;
  bool answers = false, selects = false;
};
int train_model(const Kind& kind, Options options);
int evaluate(Options options);
int export_command(Options options);
int check_command(Options options);

// What --help prints.
extern const char* const kUsage;

}  // namespace kvick::train
