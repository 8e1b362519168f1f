#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

// kvick train pca.
void add_pca(CLI::App& train, const Common& common, Run& chosen);

}  // namespace kvick::cli
