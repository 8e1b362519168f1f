#pragma once
// The commands of kvick-train. Each returns the exit status and throws Mistake for a user's one.

#include "train/options.h"

namespace kvick::train {

// lm, bct and draft: what is trained, and whether on another model's answers.
struct Kind {
  std::string arch;
  bool answers = false;
};
int train_model(const Kind& kind, Options options);
int evaluate(Options options);
int export_command(Options options);
int check_command(Options options);

// What --help prints.
extern const char* const kUsage;

}  // namespace kvick::train
