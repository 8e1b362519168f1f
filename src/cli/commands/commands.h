#pragma once
// The commands. Each add_NAME registers one command with its options and its action.

#include "cli/options/command.h"
#include "cli/options/command_line.h"

namespace kvick::cli {

void add_run(const Command& app, const Common& common);
void add_chat(const Command& app, const Common& common);
void add_serve(const Command& app, const Common& common);
void add_embed(const Command& app, const Common& common);
void add_bench(const Command& app, const Common& common);
void add_ppl(const Command& app, const Common& common);
void add_plan(const Command& app, const Common& common);
void add_network(const Command& app, const Common& common);
void add_lab(const Command& app, const Common& common);
void add_train(const Command& app, const Common& common);
void add_quantize(const Command& app, const Common& common);
void add_inspect(const Command& app, const Common& common);
void add_list(const Command& app, const Common& common);
void add_packed(const Command& app, const Common& common);
void add_pull(const Command& app, const Common& common);
void add_health(const Command& app, const Common& common);
void add_completion(const Command& app);
void add_man(const Command& app);
void add_rm(const Command& app, const Common& common);

}  // namespace kvick::cli
