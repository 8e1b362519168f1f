// kvick-train: the training program, separate from kvick because it needs libtorch. `kvick train
// lm` and similar commands start it. Exit status 0, 2 for a user's mistake, 1 for a failure at run
// time.

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <malloc.h>
#include <unistd.h>

#include "train/trainer/commands.h"

namespace {

// Debian's OpenBLAS uses its slowest kernels on processors that it does not know, and OpenMP's
// waiting threads spin. Both read the environment before main, so the program restarts itself with
// these variables set.
void set_environment(char** argv) {
  bool changed = false;
  const auto set = [&](const char* name, const char* value) {
    if (std::getenv(name) != nullptr) return;
    changed |= ::setenv(name, value, 0) == 0;
  };
  if (__builtin_cpu_supports("avx512dq")) set("OPENBLAS_CORETYPE", "SkylakeX");
  set("OMP_WAIT_POLICY", "passive");
  if (changed) ::execv("/proc/self/exe", argv);  // if this fails, the program is slower but correct
}

int run_command(const std::vector<std::string>& arguments) {
  kvick::train::Options options(arguments);
  if (options.flag("--help") || options.flag("-h")) {
    std::fputs(kvick::train::kUsage, stdout);
    return 0;
  }
  const std::string command = options.next("the command");
  if (command == "lm") return kvick::train::train_model({"llama"}, std::move(options));
  if (command == "bct") return kvick::train::train_model({"bct"}, std::move(options));
  if (command == "draft")
    return kvick::train::train_model({.arch = "llama", .answers = true}, std::move(options));
  if (command == "maple")
    return kvick::train::train_model({.arch = "llama", .answers = false, .selects = true},
                                     std::move(options));
  if (command == "eval") return kvick::train::evaluate(std::move(options));
  if (command == "export") return kvick::train::export_command(std::move(options));
  if (command == "check") return kvick::train::check_command(std::move(options));
  kvick::train::refuse("there is no command ", command, "; kvick-train --help lists them");
}

}  // namespace

int main(int argc, char** argv) {
  set_environment(argv);
  // Memory freed by one step is reused by the next. Large blocks would otherwise return to the
  // system and come back as zeroed pages in each step.
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, -1);
  try {
    return run_command({argv + 1, argv + argc});
  } catch (const kvick::train::Mistake& mistake) {
    std::fprintf(stderr, "kvick train: %s\n", mistake.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kvick train: %s\n", error.what());
    return 1;
  }
}
