#pragma once

#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace kvick::base {

// What to throw when the system starts no thread: a limit is reached, or there is no memory for a
// stack.
inline std::system_error no_thread(const std::error_code& why, const char* whose) {
  return std::system_error(
      why, std::string("the system refuses another thread, which is needed for ") + whose +
               " (raise ulimit -u or pids.max, or free memory)");
}

// A started thread. Throws no_thread().
template <typename Body>
std::thread start_thread(const char* whose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw no_thread(error.code(), whose);
  }
}

// Asks for scheduler time slices of `slice` (0.1 to 100 ms) for the calling thread where others
// want its core too. Its share of the core stays the same; it runs sooner after a wakeup. Works
// from Linux 6.12 on; before, the request succeeds and changes nothing. False: refused.
bool ask_for_slices(std::chrono::microseconds slice);

}  // namespace kvick::base
