#pragma once
// The roofline of one decode step, which experiments show beside the measured time.

#include <optional>

#include "lab/core/experiment.h"
#include "plan/machine/calibration.h"

namespace kvick::lab {

class LeastStep {
 public:
  explicit LeastStep(const Bench& bench) : bench_(bench) {}

  // Returns the least seconds that this machine needs for a step after which each of `sequences`
  // sequences has `tokens` tokens. kv: resolved. planned: the cost of one such sequence. measured:
  // seconds that the step took; if it beats a limit, the limit is raised. Does not include a slower
  // tier's time. The first call measures the machine.
  double seconds(const engine::Engine& engine, const engine::KvOptions& kv, const kv::Cost& planned,
                 uint32_t tokens, uint32_t sequences, double measured);

 private:
  const Bench& bench_;
  std::optional<plan::Calibration> calibration_;
};

}  // namespace kvick::lab
