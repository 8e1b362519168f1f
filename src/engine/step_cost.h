#pragma once
// What a forward takes, by how many rows it has: measured as steps go by.

#include <array>
#include <cstdint>

namespace kvick::engine {

class StepCost {
 public:
  void observe(uint32_t rows, double seconds);
  // 0 before the first observation. Between rows that were seen: in proportion; beyond them another
  // row is presumed to cost kPresumedSlope of what the rows seen did each, low enough that more
  // rows are tried.
  double seconds(uint32_t rows) const;

  static constexpr uint32_t kMostRows = 256;  // more rows cost what these do, in proportion
  static constexpr double kPresumedSlope = 0.1;

 private:
  struct Seen {
    double seconds = 0;  // a moving average; 0: none
    uint32_t times = 0;
  };
  std::array<Seen, kMostRows + 1> seen_ = {};
};

}  // namespace kvick::engine
