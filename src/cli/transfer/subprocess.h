#pragma once

#include <string>
#include <vector>

#include "base/function_ref.h"

namespace kvick::cli {

struct Ended {
  bool found = true;       // false: there is no such program
  int status = 0;          // exit status; 128 + signal if a signal ended it
  std::string output_end;  // the last 16 KiB of stdout and stderr together
};

// Runs a program found on PATH (no shell) with stdin from /dev/null, and waits for it. `variables`
// ("NAME=value") replace variables of this process's environment. Calls tick() about five times a
// second meanwhile.
Ended run_program(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables, base::FunctionRef<void()> tick);

// Returns the line that explains why a program failed: the last that begins with "ERROR", else the
// last that is not empty.
std::string reason_line(const std::string& output);

}  // namespace kvick::cli
