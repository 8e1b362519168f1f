#pragma once
// The log of a run as JSON and as a chart.

#include <string>
#include <vector>

#include "train/files/checkpoint.h"

namespace kvick::train {

// Returns [{"step", "loss", "held_out", "accuracy", "seconds"}, ...], null where a value was not
// measured.
std::string log_json(const std::vector<LogPoint>& log);
// Returns the run in one line, for kvick lab bounded: {"arch", "task", "update", "address",
// "slots", "pairs", "symbols", "dim", "layers", "kv_heads", "head_dim", "ctx", "batch",
// "parameters", "steps", "seconds", "best_held_out", "accuracy"}. Without a memory there is no
// address, and update and slots are null. Values that were not measured are null. pairs and symbols
// exist only for tasks that have them. accuracy is the last one measured.
std::string summary_json(const Checkpoint& checkpoint);
// Returns a chart of the loss on training and held-out data over steps, as SVG.
std::string loss_svg(const std::vector<LogPoint>& log, const std::string& title);

}  // namespace kvick::train
