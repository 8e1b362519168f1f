#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

// Adds to `kvick train` the tasks that make a model from nothing.
void add_model_training(CLI::App& train, const Common& common, Run& chosen);

}  // namespace kvick::cli
