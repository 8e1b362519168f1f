#pragma once
// A circuit breaker: after a failure, nothing is tried for a pause. The pause doubles with each
// further failure, so an unreachable store costs requests no time.

#include <algorithm>

namespace kvick::store {

class Breaker {
 public:
  Breaker(double first_seconds, double most_seconds)
      : first_seconds_(first_seconds), most_seconds_(most_seconds) {}

  bool closed(double now) const { return now >= until_; }
  double until() const { return until_; }  // time of the next try, in the clock of `now`
  void fail(double now) {
    pause_ = std::clamp(2 * pause_, first_seconds_, most_seconds_);
    until_ = now + pause_;
  }
  void succeed() { pause_ = until_ = 0; }

 private:
  double first_seconds_, most_seconds_;
  double pause_ = 0, until_ = 0;
};

}  // namespace kvick::store
