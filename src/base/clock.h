#pragma once

#include <chrono>
#include <ctime>

namespace kvick::base {

// Seconds since some fixed moment. Passed to whatever measures or waits, so that tests can bring
// their own.
using Clock = double (*)();

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The date and time of day here.
inline std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace kvick::base
