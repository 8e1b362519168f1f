#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

// kvick train start.
void add_start(CLI::App& train, const Common& common, Run& chosen);

}  // namespace kvick::cli
