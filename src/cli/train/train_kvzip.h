#pragma once

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

// kvick train kvzip.
void add_kvzip(const Command& train, const Common& common);

}  // namespace kvick::cli
