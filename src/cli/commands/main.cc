// kvick: the program. Exit status 0, 2 for a user's mistake, 1 for a failure at run time.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fmt/format.h>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu.h"
#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/version.h"
#include "kv/registry/plugin.h"

namespace {

// Loads the plugins before the command line is parsed: the help of the options lists their
// strategies.
kvick::base::Status<> load_plugins(int argc, char** argv) {
  constexpr std::string_view kOption = "--kv-plugin";
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == kOption && i + 1 < argc)
      word = argv[i + 1];
    else if (word.starts_with(std::string(kOption) + "="))
      word.remove_prefix(kOption.size() + 1);
    else
      continue;
    KVICK_TRY_VOID(kvick::kv::load_plugin(std::string(word)));
  }
  return kvick::base::Done{};
}

int run_command(int argc, char** argv) {
  if (const auto loaded = load_plugins(argc, argv); !loaded.ok())
    return kvick::cli::refuse(loaded.error());
  kvick::cli::Common common;
  std::vector<std::string> plugins;
  const kvick::cli::ProgramText text = {
      .name = "kvick",
      .summary =
          "kvick: run large language models on this machine's processor, with the KV cache "
          "of your choice",
      .version = std::string(kvick::cli::program_version()),
      .footer =
          "kvick help COMMAND lists a command's options; kvick run \"Why is the sky blue?\" asks "
          "the "
          "default\nmodel, and kvick run MODEL \"...\" another.\n"
          "Environment: KVICK_ISA forces an instruction set (" +
          kvick::base::isa_names() +
          ");\nXDG_CACHE_HOME moves the model cache, XDG_STATE_HOME the history of chats;\n"
          "HF_ENDPOINT and HF_TOKEN are used by pull, run and chat."};
  return run_command_line(argc, argv, text, [&](const kvick::cli::Command& program) {
    program.add_flag("--json", common.json,
                     "print one JSON object on stdout, everything else on stderr");
    program.add_flag("--quiet", common.quiet, "no progress and no notes on stderr");
    program
        .add_option(
            "--kv-plugin", plugins,
            "a shared library with more strategies for --kv or policies for --kv-select, as "
            "docs/guides/own-strategy.md "
            "says; may be given several times")
        .takes(kvick::cli::ValueKind::kFile)
        .takes_one();
    kvick::cli::add_run(program, common);
    kvick::cli::add_chat(program, common);
    kvick::cli::add_serve(program, common);
    kvick::cli::add_embed(program, common);
    kvick::cli::add_bench(program, common);
    kvick::cli::add_ppl(program, common);
    kvick::cli::add_plan(program, common);
    kvick::cli::add_network(program, common);
    kvick::cli::add_lab(program, common);
    kvick::cli::add_train(program, common);
    kvick::cli::add_quantize(program, common);
    kvick::cli::add_list(program, common);
    kvick::cli::add_pull(program, common);
    kvick::cli::add_rm(program, common);
    kvick::cli::add_packed(program, common);
    kvick::cli::add_inspect(program, common);
    kvick::cli::add_health(program, common);
    kvick::cli::add_completion(program);
    kvick::cli::add_man(program);
  });
}

// Flushes stdout and returns the exit status. Output may still be buffered when a command returns,
// and writing it may fail, for example because the disk is full.
int flushed(int status) {
  const bool wrote = std::fflush(stdout) == 0;
  if (wrote && std::ferror(stdout) == 0) return status;
  const std::string reason = wrote ? "" : fmt::format(": {}", std::strerror(errno));
  fmt::print(stderr, "kvick: cannot write the output{}\n", reason);
  return status != 0 ? status : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return flushed(run_command(argc, argv));
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "kvick: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "kvick: {}\n", kvick::cli::printable(error.what()));
  }
  return 1;
}
