#pragma once

#include "cli/command.h"
#include "cli/command_line.h"

namespace kvick::cli {

// kvick train answers.
void add_answers(const Command& train, const Common& common);

}  // namespace kvick::cli
