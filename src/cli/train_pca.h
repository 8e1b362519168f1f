#pragma once

#include "cli/command.h"
#include "cli/command_line.h"

namespace kvick::cli {

// kvick train pca.
void add_pca(const Command& train, const Common& common);

}  // namespace kvick::cli
