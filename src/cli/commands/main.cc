// kvick: the program. Exit status 0, 2 for a user's mistake, 1 for a failure at run time.

#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <new>

#include "base/cpu.h"
#include "cli/commands/commands.h"

namespace {

int run_command(int argc, char** argv) {
  kvick::cli::Common common;
  const kvick::cli::ProgramText text = {
      .name = "kvick",
      .summary =
          "kvick: run large language models on this machine's processor, with the KV cache "
          "of your choice",
      .version = KVICK_VERSION,
      .footer =
          "kvick COMMAND --help lists a command's options; kvick run \"What is gravity?\" "
          "asks the default model.\n"
          "Environment: KVICK_ISA forces an instruction set (" +
          kvick::base::isa_names() +
          ");\nXDG_CACHE_HOME moves the model cache; HF_ENDPOINT and HF_TOKEN are used by "
          "pull."};
  return run_command_line(argc, argv, text, [&](const kvick::cli::Command& program) {
    program.add_flag("--json", common.json,
                     "print one JSON object on stdout, everything else on stderr");
    program.add_flag("--quiet", common.quiet, "no progress and no notes on stderr");
    kvick::cli::add_run(program, common);
    kvick::cli::add_serve(program, common);
    kvick::cli::add_bench(program, common);
    kvick::cli::add_ppl(program, common);
    kvick::cli::add_plan(program, common);
    kvick::cli::add_lab(program, common);
    kvick::cli::add_train(program, common);
    kvick::cli::add_list(program, common);
    kvick::cli::add_pull(program, common);
    kvick::cli::add_inspect(program, common);
  });
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kvick: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "kvick: {}\n", error.what());
  }
  return 1;
}
