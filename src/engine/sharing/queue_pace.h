#pragma once
// Predicts how long a job waits to begin, by Little's law: the number of jobs ahead of it, over the
// measured rate at which waiting jobs begin. This needs no forecast of how long answers are: longer
// answers lower the measured rate.

#include <cstdint>

namespace kvick::engine {

class QueuePace {
 public:
  // sequences: the most that run at once. They may all end and be replaced together, so the average
  // spans several times that many jobs.
  explicit QueuePace(uint32_t sequences);

  // waiting: jobs that wait now; begun: jobs that ever began. `now` in seconds, never decreasing.
  void observe(double now, uint32_t waiting, uint64_t begun);
  // Expected wait of a job behind `ahead` others. 0 if none waited at the latest observation: jobs
  // that came since may begin at once.
  double wait_seconds(uint32_t ahead) const;

  // Once the queue has been empty for this long, its history is dropped.
  static constexpr double kForgetSeconds = 30;

 private:
  double keep_;         // decay factor of both sums, per job that begins
  double begun_ = 0;    // jobs that began while some waited
  double seconds_ = 0;  // time in which some waited
  uint64_t begun_ever_ = 0;
  uint32_t waiting_ = 0;  // jobs at the latest observation
  double last_ = 0;       // its time
  double empty_since_ = 0;
};

}  // namespace kvick::engine
