#pragma once
// For what must be done although there may be no memory for it at the moment.

#include <chrono>
#include <new>
#include <thread>

namespace kvick::server {

// Calls it again, a millisecond apart, as long as it throws std::bad_alloc; false: for ten seconds.
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
