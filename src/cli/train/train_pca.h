#pragma once

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

// kvick train pca.
void add_pca(const Command& train, const Common& common);

}  // namespace kvick::cli
