#include "engine/answer/loop_watch.h"

#include <algorithm>

namespace kvick::engine {

bool LoopWatch::add(kv::Token token) {
  bool loops = false;
  const size_t periods = std::min(tokens_, kMostPeriod);
  for (size_t period = 1; period <= periods; ++period) {
    uint32_t& equal = equal_[period - 1];
    equal = last_[(tokens_ - period) % kMostPeriod] == token ? equal + 1 : 0;
    // Adds the first piece, which repeats none before it.
    loops |= equal + period >= std::max(kRepeats * period, kTokens);
  }
  last_[tokens_ % kMostPeriod] = token;
  ++tokens_;
  return loops;
}

}  // namespace kvick::engine
