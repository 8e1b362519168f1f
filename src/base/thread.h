#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace kvick::base {

// A started thread. Throws a std::system_error that says whose thread it was to be, if the system
// gives none: it has a limit (ulimit -u, cgroup pids.max), or there is no memory for a stack.
template <typename Body>
std::thread start_thread(const char* whose, Body&& body) {
  try {
    return std::thread(std::forward<Body>(body));
  } catch (const std::system_error& error) {
    throw std::system_error(
        error.code(), std::string("the system starts no more threads, one is needed for ") + whose +
                          " (ulimit -u, pids.max and memory limit them)");
  }
}

}  // namespace kvick::base
