#pragma once
// Measures one layer's attention while sequences grow token by token to a whole context: the cost
// of a strategy's growth, copies and spare rows.

#include "base/result.h"
#include "kv/registry/registry.h"
#include "lab/core/experiment.h"
#include "plan/forecast/attention_block.h"

namespace kvick::lab {

struct GrowthRun {
  model::Config config;
  std::string spec;  // the strategy, with options
  engine::Attention attention = engine::Attention::kBmm;
  uint32_t tokens = 0, batch = 1;
  // Steps per piece. A strategy that grows every r rows needs a divisor of r, so that only the
  // first step of a piece grows.
  uint32_t piece = 64;
};

// Seconds of all `tokens` steps together. Only the first few steps of each piece are timed; the
// rows of the others are written at once. The first step, which may grow, counts once; the mean of
// the other timed steps counts for the rest.
struct GrowthCost {
  plan::BlockSeconds seconds;
  double compile_s = 0;
  double compiled_shapes = 0;
  uint64_t timed_steps = 0;
  kv::Usage usage;  // copied_bytes: only of single steps and of the jumps between them
};

base::Result<GrowthCost> run_growth(const Bench& bench, const GrowthRun& run);
// {begin_s, write_s, attend_s, compile_s, all_s, compiled_shapes, timed_steps, allocated_bytes}
Json json_of(const GrowthCost& cost);
// Measures the rates of the run's shape and context, with attention by the library.
base::Result<kv::GrowthRates> measure_rates(const Bench& bench, const GrowthRun& run);
// Returns the setup of a store for a run, and for measuring its rates.
kv::Setup setup_of(const Bench& bench, const GrowthRun& run);

}  // namespace kvick::lab
