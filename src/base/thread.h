#pragma once

#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace kvick::base {

// Returns the exception for a thread that the system did not start, because a limit is reached or
// there is no memory for its stack. whose: what needs the thread.
inline std::system_error no_thread(const std::error_code& why, const char* whose) {
  return std::system_error(
      why, std::string("the system refuses another thread, which is needed for ") + whose +
               " (raise ulimit -u or pids.max, or free memory)");
}

// Starts a thread. Throws no_thread().
template <typename Body>
std::thread start_thread(const char* whose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw no_thread(error.code(), whose);
  }
}

// Asks the scheduler for time slices of `slice` (0.1 to 100 ms) for the calling thread while others
// compete for its core. Its share of the core stays the same, but it runs sooner after a wakeup.
// Takes effect from Linux 6.12 on; earlier kernels accept the request and ignore it. Returns false
// if the system refuses.
bool ask_for_slices(std::chrono::microseconds slice);

}  // namespace kvick::base
