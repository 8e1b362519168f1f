#pragma once

#include "cli/command.h"
#include "cli/command_line.h"

namespace kvick::cli {

// Adds to `kvick train` the tasks that make a model from nothing.
void add_model_training(const Command& train, const Common& common);

}  // namespace kvick::cli
