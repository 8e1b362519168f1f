#pragma once
// Retries for work that must be done although memory may be short at the moment.

#include <chrono>
#include <new>
#include <thread>

namespace kvick::server {

// Calls `call`, again after 1 ms each time it throws std::bad_alloc. Returns false if it still
// fails after 10 s (10,000 tries).
template <typename Call>
bool try_until_done(const Call& call) {
  for (int tries = 0; tries < 10'000; ++tries) {
    try {
      call();
      return true;
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return false;
}

}  // namespace kvick::server
