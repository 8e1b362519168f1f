#pragma once

#include <chrono>

namespace kvick::base {

// Seconds since some fixed moment. Passed to whatever measures or waits, so that tests can bring
// their own.
using Clock = double (*)();

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace kvick::base
