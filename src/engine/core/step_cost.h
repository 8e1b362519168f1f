#pragma once
// What a forward takes, by its rows and by what they attend to: measured as steps go by.

#include <array>
#include <cstdint>

namespace kvick::engine {

struct StepShape {
  uint32_t rows = 0;
  // Rows of the cache that are read, with what a sequence's further fresh rows cost of it.
  double attended = 0;
  // Another sequence with so many fresh rows behind `past`.
  void add(uint32_t fresh, uint32_t past) {
    rows += fresh;
    attended += past * (1 + kShare * (fresh - 1));
  }

  // Of reading a row for one fresh row, what each further fresh row of the same sequence adds: it
  // is in the processor's cache by then. Measured with SmolLM2 at 100 and 800 rows.
  static constexpr double kShare = 1.0 / 16;
};

class StepCost {
 public:
  void observe(const StepShape& shape, double seconds);
  // 0 before the first observation. By the steps of about so many rows that were seen, and the line
  // that all steps follow as they attend to more; between those in proportion, and never less than
  // what fewer rows take. Beyond them a row's arithmetic is presumed to take kPresumedSlope of what
  // reading the weights takes: low enough that the draft tokens of one sequence are tried; beside
  // many rows another one is dear.
  double seconds(const StepShape& shape) const;

  static constexpr uint32_t kMostRows = 256;  // more rows cost what these do, in proportion
  static constexpr double kPresumedSlope = 0.1;
  // Steps after which what so many rows took is no longer known, so that it is tried again: the
  // machine may have become faster.
  static constexpr uint64_t kForgotten = 1024;
  // Steps of so many rows to see before they count evenly. Of fewer the quickest counts, and is
  // forgotten sooner, 64 steps after the first one, and twice as many after each other: memory that
  // grows and pages that are faulted in make the first ones slow. When these counted, HumanEval had
  // 2 steps of 3 rows, which took 5.6 ms, then none, and 92 steps of 6 rows at 5.4, where 3 rows
  // take 3.4 ms again and again (SmolLM2).
  static constexpr uint32_t kFew = 5;

 private:
  // Up to 8 rows apart, then four sorts of steps for each doubling: of 40 that were measured apart
  // the luckiest would always look like the best.
  static constexpr uint32_t kSorts = 29;
  static uint32_t sort_of(uint32_t rows);
  struct Seen {
    double rows = 0, seconds = 0, attended = 0;  // moving averages
    uint32_t times = 0;
    uint64_t at = 0;  // the last time, in steps
  };
  bool fresh(const Seen& seen) const;
  double slope() const;
  double at(const Seen& seen, double attended) const;

  std::array<Seen, kSorts> seen_ = {};
  uint64_t steps_ = 0;
  // Moments about the averages of steps of the same sort.
  double covariance_ = 0, variance_ = 0;
};

// What a drafter that computes takes for a level of a tree of draft tokens.
class LevelCost {
 public:
  void observe(uint32_t levels, double seconds);
  double seconds() const { return seconds_; }  // 0 before the first observation

 private:
  double seconds_ = 0;  // a moving average
};

}  // namespace kvick::engine
