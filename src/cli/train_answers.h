#pragma once

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

// kvick train answers.
void add_answers(CLI::App& train, const Common& common, Run& chosen);

}  // namespace kvick::cli
