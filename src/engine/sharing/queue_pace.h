#pragma once
// How long a job would wait for its turn, from how fast the jobs that waited before it began.
// Little's law: those ahead of it, over the rate at which they begin. Nothing is known of how long
// answers will be, and nothing need be: longer ones make jobs begin later, which is seen.

#include <cstdint>

namespace kvick::engine {

class QueuePace {
 public:
  // sequences: that run at once. They may all end together, and as many begin: what is remembered
  // is several times that.
  explicit QueuePace(uint32_t sequences);

  // waiting: jobs that wait now; begun: jobs that ever began. Never back in time.
  void observe(double now, uint32_t waiting, uint64_t begun);
  // Of a job behind `ahead` others. 0 if none waited at the latest observation, for then those that
  // came since may begin at once.
  double wait_seconds(uint32_t ahead) const;

  // What a queue was like that has been empty for so long says nothing of the next one.
  static constexpr double kForgetSeconds = 30;

 private:
  double keep_;         // of what was seen, at each job that begins
  double begun_ = 0;    // that had waited, and
  double seconds_ = 0;  // in which some waited; both fade
  uint64_t begun_ever_ = 0;
  uint32_t waiting_ = 0;  // at
  double last_ = 0;       // the latest observation
  double empty_since_ = 0;
};

}  // namespace kvick::engine
