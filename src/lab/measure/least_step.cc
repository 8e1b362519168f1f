#include "lab/measure/least_step.h"

#include "base/memory.h"
#include "kernels/probe/probe.h"
#include "model/core/seen_rows.h"
#include "plan/machine/roofline.h"

namespace kvick::lab {

double LeastStep::seconds(const engine::Engine& engine, const engine::KvOptions& kv,
                          const kv::Cost& planned, uint32_t tokens, uint32_t sequences,
                          double measured) {
  if (!calibration_)
    calibration_ = plan::calibrate(bench_.pool, kernels::probes(bench_.kernels.isa),
                                   {.most_bytes = base::available_memory_bytes() / 4});
  const model::Config& config = engine.model().config();
  const plan::CacheReads reads = {.seen_bytes =
                                      [&](uint32_t seen) {
                                        return model::seen_bytes(
                                            config, {.k = *kv.k_type, .v = *kv.v_type}, seen);
                                      },
                                  .bytes = [&](uint32_t) { return planned.read_bytes_per_token; },
                                  .all_rows = kv.aging.has_value()};
  const plan::Work work =
      plan::decode_work(config, engine.model().weights(), reads,
                        {.depth = tokens - 1, .tokens = 1, .parallel = sequences});
  plan::raise_limits(work, measured, *calibration_);
  return plan::bound_of(work, *calibration_).seconds();
}

}  // namespace kvick::lab
