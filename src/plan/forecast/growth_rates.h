#pragma once
// What kv::best_growths asks for, measured: on this machine, this model's heads, these element
// types and this attention.

#include "base/clock.h"
#include "base/result.h"
#include "kv/registry/registry.h"
#include "kv/stores/growth_model.h"
#include "model/core/config.h"
#include "model/core/workspace.h"

namespace kvick::plan {

// A line through points, by least squares; y = at_zero + slope * x.
struct Line {
  double at_zero = 0, slope = 0;
};
Line fit_line(std::span<const double> x, std::span<const double> y);

// Stores of static types need calibrated ranges. Speed does not depend on the ranges, so a store
// that is only measured gets the range 1 for each head of setup.shape.
void set_any_ranges(kv::Setup& setup);

// Grows a sequence of the setup's shape in eighths of its context, or of 128 MB if that is less.
// Takes a few times as long as copying that much. Where workspace.library is null spare rows cost
// no time, and nothing is measured but the copies. rows: that a step's attention has, draft tokens
// among them; at most an eighth of the context. Error: no room.
base::Result<kv::GrowthRates> measure_growth(const model::Config& config, const kv::Setup& setup,
                                             model::Workspace& workspace,
                                             base::Clock clock = base::steady_seconds,
                                             uint32_t rows = 1);

}  // namespace kvick::plan
