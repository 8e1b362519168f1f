#pragma once

#include "cli/command.h"
#include "cli/command_line.h"

namespace kvick::cli {

// kvick train distil.
void add_distil(const Command& train, const Common& common);
// kvick train predictor.
void add_predictor(const Command& train, const Common& common);

}  // namespace kvick::cli
