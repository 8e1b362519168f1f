#pragma once
// The commands of kvick-train. Each returns the exit status and throws Mistake for a user's
// mistake.

#include "train/settings/options.h"

namespace kvick::train {

// A training command (lm, bct, draft or maple): the architecture, whether it learns from another
// model's answers, and whether it trains a predictor of the rows to read.
struct Kind {
  std::string arch;
  bool answers = false, selects = false;
};
int train_model(const Kind& kind, Options options);
int evaluate(Options options);
int export_command(Options options);
int check_command(Options options);

// The text of --help.
extern const char* const kUsage;

}  // namespace kvick::train
