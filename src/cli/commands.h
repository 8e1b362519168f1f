#pragma once
// The commands. Each add_NAME registers its options; see command.h.

#include <CLI/CLI.hpp>

#include "cli/command.h"

namespace kvick::cli {

void add_run(CLI::App& app, const Common& common, Run& chosen);
void add_serve(CLI::App& app, const Common& common, Run& chosen);
void add_bench(CLI::App& app, const Common& common, Run& chosen);
void add_ppl(CLI::App& app, const Common& common, Run& chosen);
void add_plan(CLI::App& app, const Common& common, Run& chosen);
void add_lab(CLI::App& app, const Common& common, Run& chosen);
void add_train(CLI::App& app, const Common& common, Run& chosen);
void add_inspect(CLI::App& app, const Common& common, Run& chosen);

}  // namespace kvick::cli
