#pragma once

namespace kvick::cli {

// While a guard is alive, Ctrl-C is recorded instead of ending the program, so that a generation
// can be stopped and its text kept. A second Ctrl-C meanwhile ends the program.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
};

}  // namespace kvick::cli
