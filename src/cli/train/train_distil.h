#pragma once

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

// kvick train distil.
void add_distil(const Command& train, const Common& common);
// kvick train predictor.
void add_predictor(const Command& train, const Common& common);

}  // namespace kvick::cli
