#pragma once
// The commands of kvick-train. Each returns the exit status and throws Mistake for a user's one.

#include "train/options.h"

namespace kvick::train {

int train_model(const std::string& arch, Options options);  // lm and bct
int evaluate(Options options);
int export_command(Options options);
int check_command(Options options);

// What --help prints.
extern const char* const kUsage;

}  // namespace kvick::train
