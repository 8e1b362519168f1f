#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace kvick::base {

// Returns the seconds since a fixed moment. Code that measures or waits takes a Clock as a
// parameter, so that tests can pass their own.
using Clock = double (*)();

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the seconds since 1970.
using Calendar = int64_t (*)();
inline int64_t unix_seconds() { return static_cast<int64_t>(std::time(nullptr)); }

// Returns the date and time of day in the local time zone.
inline std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace kvick::base
