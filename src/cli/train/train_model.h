#pragma once

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

// Adds to `kvick train` the tasks that train a model.
void add_model_training(const Command& train, const Common& common);

}  // namespace kvick::cli
