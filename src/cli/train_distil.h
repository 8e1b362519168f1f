#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

// kvick train distil.
void add_distil(CLI::App& train, const Common& common, Run& chosen);
// kvick train predictor.
void add_predictor(CLI::App& train, const Common& common, Run& chosen);

}  // namespace kvick::cli
