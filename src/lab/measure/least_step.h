#pragma once
// The roofline of one decode step, for experiments that show it beside what was measured.

#include <optional>

#include "lab/core/experiment.h"
#include "plan/machine/calibration.h"

namespace kvick::lab {

class LeastStep {
 public:
  explicit LeastStep(const Bench& bench) : bench_(bench) {}

  // Seconds that this machine needs at least for a step that leaves `tokens` in each of `sequences`
  // sequences. kv: resolved. planned: the cost of one such sequence. measured: seconds that the
  // step took; what it beats raises the limits. Without a slower tier's time. The first call
  // measures the machine.
  double seconds(const engine::Engine& engine, const engine::KvOptions& kv, const kv::Cost& planned,
                 uint32_t tokens, uint32_t sequences, double measured);

 private:
  const Bench& bench_;
  std::optional<plan::Calibration> calibration_;
};

}  // namespace kvick::lab
