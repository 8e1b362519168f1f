#pragma once

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

// kvick train duo.
void add_duo(const Command& train, const Common& common);

}  // namespace kvick::cli
