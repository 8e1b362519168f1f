#pragma once
// A training run in a folder: checkpoint, log, summary and curve appear there every few minutes.

#include <functional>

#include "train/trainer/trainer.h"

namespace kvick::train {

struct RunOptions {
  std::string folder;
  double every_seconds = 180;           // between checkpoints
  uint64_t log_steps = 50;              // steps between points of the log
  uint64_t held_out_steps = 250;        // and between measurements of held-out data,
  uint64_t held_out_targets = 1 << 16;  // held-out tokens to measure on
  bool resume = false;
  const Checkpoint* start =
      nullptr;  // where a new run begins (train/from_model/start.h); null: at random
};

// Where the run stands, at every point of the log.
struct Standing {
  const LogPoint& point;
  double tokens_per_second, seconds_left;
};

struct RunCalls {
  std::function<double()> seconds;  // a clock
  std::function<void(const Standing&)> report;
  std::function<bool()> stopped;  // true: write a checkpoint and return
};

// Throws Mistake where the folder holds a run that is not to be resumed, or that had other settings
// or data, and where data and start do not belong together.
Checkpoint run_training(Settings settings, const Data& data, const torch::Device& device,
                        const RunOptions& options, const RunCalls& calls);

std::string checkpoint_path(const std::string& folder);

}  // namespace kvick::train
