#pragma once
// A training run in a folder. It writes checkpoint, log, summary and curve there every few minutes.

#include <functional>

#include "train/trainer/trainer.h"

namespace kvick::train {

struct RunOptions {
  std::string folder;
  double every_seconds = 180;           // between checkpoints
  uint64_t log_steps = 50;              // steps between points of the log
  uint64_t held_out_steps = 250;        // steps between measurements of held-out data
  uint64_t held_out_targets = 1 << 16;  // held-out targets per measurement
  bool resume = false;
  // The weights of a new run (train/from_model/start.h); null: random.
  const Checkpoint* start = nullptr;
};

// The state of the run, reported at every point of the log.
struct Standing {
  const LogPoint& point;
  double tokens_per_second, seconds_left;
};

struct RunCalls {
  std::function<double()> seconds;  // a clock
  std::function<void(const Standing&)> report;
  std::function<bool()> stopped;  // true: write a checkpoint and return
};

// Runs the training. Throws Mistake if the folder holds a run and resume is false, or a run with
// other settings or data, or if data and start do not match.
Checkpoint run_training(Settings settings, const Data& data, const torch::Device& device,
                        const RunOptions& options, const RunCalls& calls);

std::string checkpoint_path(const std::string& folder);

}  // namespace kvick::train
