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

// Runs a program found on PATH (no shell), stdin closed, with `variables` ("NAME=value") in place
// of the same ones of this process, and waits for it. Calls tick() about five times a second
// meanwhile.
Ended run_program(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables, base::FunctionRef<void()> tick);

// The line that says why, for a program that failed: the last that begins with "ERROR", else the
// last that is not empty.
std::string reason_line(const std::string& output);

}  // namespace kvick::cli
