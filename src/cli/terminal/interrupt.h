#pragma once

namespace kvick::cli {

// While one is alive, Ctrl-C is noted instead of ending the program, so that a generation can be
// stopped and what it has given kept. A second Ctrl-C before the first was looked at ends the
// program as usual.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static bool interrupted();
};

}  // namespace kvick::cli
