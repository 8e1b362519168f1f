#include "engine/sharing/queue_pace.h"

#include <cmath>

namespace kvick::engine {
namespace {

// Rounds of all sequences that are remembered. Just after all of them began together the wait is
// told too short: of one round 2.7 times, of four by a fifth.
constexpr double kRounds = 4;

}  // namespace

QueuePace::QueuePace(uint32_t sequences) : keep_(std::exp(-1 / (kRounds * sequences))) {}

void QueuePace::observe(double now, uint32_t waiting, uint64_t begun) {
  if (waiting_ > 0) {
    // Who begins while nobody waits says nothing of how long those would wait who do.
    const auto began = static_cast<double>(begun - begun_ever_);
    const double keep = std::pow(keep_, began);
    begun_ = begun_ * keep + began;
    seconds_ = seconds_ * keep + (now - last_);
    empty_since_ = now;
  } else if (now - empty_since_ > kForgetSeconds) {
    begun_ = seconds_ = 0;
  }
  waiting_ = waiting;
  begun_ever_ = begun;
  last_ = now;
}

// The one more that began is none: before any did, those ahead are thought to take as long each as
// nobody has begun for. So a burst at an idle server is let in, and what comes behind it is refused
// once the queue is seen to stand still.
double QueuePace::wait_seconds(uint32_t ahead) const {
  return waiting_ == 0 ? 0 : ahead * seconds_ / (begun_ + 1);
}

}  // namespace kvick::engine
