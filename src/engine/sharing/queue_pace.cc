#include "engine/sharing/queue_pace.h"

#include <cmath>

namespace kvick::engine {
namespace {

// The average spans this many times the sequences that run at once. Just after all of them began
// together, the wait is underestimated: by a factor of 2.7 with one round, by a fifth with four.
constexpr double kRounds = 4;

}  // namespace

QueuePace::QueuePace(uint32_t sequences) : keep_(std::exp(-1 / (kRounds * sequences))) {}

void QueuePace::observe(double now, uint32_t waiting, uint64_t begun) {
  if (waiting_ > 0) {
    // Jobs that begin while none wait say nothing about waiting, so only this time counts.
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

// The + 1: before any job has begun, each job ahead is assumed to take the time that has passed
// without one beginning. So a burst at an idle server is admitted, and later jobs are refused once
// the queue stands still.
double QueuePace::wait_seconds(uint32_t ahead) const {
  return waiting_ == 0 ? 0 : ahead * seconds_ / (begun_ + 1);
}

}  // namespace kvick::engine
