#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace kvick::base {

// Seconds since some fixed moment. Passed to whatever measures or waits, so that tests can bring
// their own.
using Clock = double (*)();

inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds since 1970.
using Calendar = int64_t (*)();
inline int64_t unix_seconds() { return static_cast<int64_t>(std::time(nullptr)); }

// The date and time of day here.
inline std::tm local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

}  // namespace kvick::base
