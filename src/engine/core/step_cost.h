#pragma once
// Predicts the seconds of a forward from its rows and the cache rows that they attend to, as learnt
// from past steps.

#include <array>
#include <cstdint>

namespace kvick::engine {

struct StepShape {
  uint32_t rows = 0;
  // Cache rows read. Each further fresh row of a sequence adds kShare of its rows.
  double attended = 0;
  // Adds a sequence with `fresh` rows after `past` committed ones.
  void add(uint32_t fresh, uint32_t past) {
    rows += fresh;
    attended += past * (1 + kShare * (fresh - 1));
  }

  // Cost of reading a cache row for a further fresh row of the same sequence, relative to the first
  // fresh row: by then it is in the processor's cache. Measured with SmolLM2 at 100 and 800 rows.
  static constexpr double kShare = 1.0 / 16;
};

class StepCost {
 public:
  void observe(const StepShape& shape, double seconds);
  // Returns the seconds of a step; 0 before the first observation. Interpolates between measured
  // steps of similar size, plus a term linear in attended rows; never less than what fewer rows
  // take. Beyond the measured sizes each row is presumed to take kPresumedSlope of the time to read
  // the weights: low enough that a single sequence tries draft tokens. In a step of many rows, a
  // further row still costs nearly its share of the step.
  double seconds(const StepShape& shape) const;

  // Larger steps are predicted in proportion to their rows.
  static constexpr uint32_t kMostRows = 256;
  static constexpr double kPresumedSlope = 0.1;
  // Steps after which the measurement of a step size expires, so that the size is tried again: the
  // machine may have become faster.
  static constexpr uint64_t kForgotten = 1024;
  // Steps of a size that are needed for an average. Until then the quickest one counts and expires
  // sooner: 64 steps after the first, doubling with each further step. Growing memory and page
  // faults make the first steps slow. When those counted, HumanEval with SmolLM2 had 2 steps of 3
  // rows at 5.6 ms and then no more, but 92 steps of 6 rows at 5.4 ms, although 3 rows usually take
  // 3.4 ms.
  static constexpr uint32_t kFew = 5;

 private:
  // Step sizes up to 8 rows have a class each, then there are four classes per doubling: with 40
  // separate sizes the luckiest measurement would always look like the best size.
  static constexpr uint32_t kSorts = 29;
  static uint32_t sort_of(uint32_t rows);
  struct Seen {
    double rows = 0, seconds = 0, attended = 0;  // moving averages
    uint32_t times = 0;
    uint64_t at = 0;  // number of the last such step
  };
  bool fresh(const Seen& seen) const;
  double slope() const;
  double at(const Seen& seen, double attended) const;

  std::array<Seen, kSorts> seen_ = {};
  uint64_t steps_ = 0;
  // Covariance and variance of seconds and attended rows within the classes.
  double covariance_ = 0, variance_ = 0;
};

// Seconds that a drafter with a forward of its own takes for one level of a tree of draft tokens.
class LevelCost {
 public:
  void observe(uint32_t levels, double seconds);
  double seconds() const { return seconds_; }  // 0 before the first observation

 private:
  double seconds_ = 0;  // a moving average
};

}  // namespace kvick::engine
