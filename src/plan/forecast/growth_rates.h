#pragma once
// Measures the rates that kv::best_growths needs: of this machine, with this model's heads, element
// types and attention.

#include "base/clock.h"
#include "base/result.h"
#include "kv/registry/registry.h"
#include "kv/stores/growth_model.h"
#include "model/core/config.h"
#include "model/core/workspace.h"

namespace kvick::plan {

// A least-squares fit: y = at_zero + slope * x.
struct Line {
  double at_zero = 0, slope = 0;
};
Line fit_line(std::span<const double> x, std::span<const double> y);

// Stores of static types need calibrated ranges. Speed does not depend on the ranges, so a store
// that is only measured gets the range 1 for each head of setup.shape.
void set_any_ranges(kv::Setup& setup);

// Grows a sequence of the setup's shape by a few rows at eight sizes, up to its context or to 128
// MiB if that is less. Takes a few times as long as copying that much. If workspace.library is
// null, spare rows cost no time, and only the copies are measured. rows: rows of a step's
// attention, including draft tokens; at most the rows that a growth adds. Error: no room.
base::Result<kv::GrowthRates> measure_growth(const model::Config& config, const kv::Setup& setup,
                                             model::Workspace& workspace,
                                             base::Clock clock = base::steady_seconds,
                                             uint32_t rows = 1);

}  // namespace kvick::plan
