// kvick: the program. Exit status 0, 2 for a user's mistake, 1 for a failure at run time.

#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <new>

#include "base/cpu.h"
#include "cli/commands.h"
#include "cli/pull.h"

namespace {

int run_command(int argc, char** argv) {
  using kvick::cli::Common;
  CLI::App app{
      "kvick: run large language models on this machine's processor, with the KV cache of your "
      "choice",
      "kvick"};
  app.set_version_flag("--version", KVICK_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  Common common;
  app.add_flag("--json", common.json, "print one JSON object on stdout, everything else on stderr");
  app.add_flag("--quiet", common.quiet, "no progress and no notes on stderr");
  kvick::cli::Run chosen;
  kvick::cli::add_run(app, common, chosen);
  kvick::cli::add_serve(app, common, chosen);
  kvick::cli::add_bench(app, common, chosen);
  kvick::cli::add_ppl(app, common, chosen);
  kvick::cli::add_plan(app, common, chosen);
  kvick::cli::add_lab(app, common, chosen);
  kvick::cli::add_train(app, common, chosen);
  kvick::cli::add_inspect(app, common, chosen);
  kvick::cli::add_pull(app, common, chosen);
  app.footer(
      "kvick COMMAND --help lists a command's options.\n"
      "Environment: KVICK_ISA forces an instruction set (" +
      kvick::base::isa_names() +
      ");\nXDG_CACHE_HOME moves the model cache; HF_ENDPOINT and HF_TOKEN are used by pull.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    fmt::print(stderr, "kvick: {} (kvick --help lists what there is)\n", error.what());
    return 2;
  }
  return chosen();
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
