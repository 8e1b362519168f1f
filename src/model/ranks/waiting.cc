#include "model/ranks/waiting.h"

#include <chrono>
#include <fmt/format.h>
#include <sched.h>
#include <thread>

#include "model/ranks/ranks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kvick::model {
namespace {

using Clock = std::chrono::steady_clock;

// About 20 us of pauses; most sums take less.
constexpr int kSpins = 800;
// The next message of a step arrives within this time. Sleeping takes at least 60 us.
constexpr auto kYields = std::chrono::milliseconds(2);
constexpr auto kShortest = std::chrono::microseconds(50),
               kLongest = std::chrono::microseconds(1000);
constexpr auto kLooks = std::chrono::milliseconds(10);  // interval between calls of `gone`

inline void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // "yield" does nothing on most ARM cores
#endif
}

}  // namespace

void Waiting::lose(const std::string& why) const {
  if (options_.on_lost) options_.on_lost(why);
  throw RankLost(why);
}

void Waiting::wait(base::FunctionRef<bool()> ready, double seconds) const {
  for (int i = 0; i < kSpins; ++i) {
    if (ready()) return;
    pause();
  }
  const Clock::time_point began = Clock::now();
  Clock::time_point looked = began;
  auto nap = kShortest;
  while (!ready()) {
    const Clock::time_point now = Clock::now();
    if (now - looked >= kLooks) {
      looked = now;
      if (options_.gone)
        if (const std::string why = options_.gone(); !why.empty() && !ready()) lose(why);
      // Checks again: this thread may have been suspended while the answer arrived.
      if (seconds > 0 && now - began > std::chrono::duration<double>(seconds) && !ready())
        lose(fmt::format("a rank has not answered for {} seconds", seconds));
    }
    if (now - began < kYields) {
      sched_yield();
      continue;
    }
    std::this_thread::sleep_for(nap);
    nap = std::min(nap * 2, kLongest);
  }
}

}  // namespace kvick::model
