#pragma once
// The log of a run for people and for programs.

#include <string>
#include <vector>

#include "train/files/checkpoint.h"

namespace kvick::train {

// [{"step", "loss", "held_out", "accuracy", "seconds"}, ...], null where nothing was measured.
std::string log_json(const std::vector<LogPoint>& log);
// The run in one line, for kvick lab bounded: {"arch", "task", "update", "address", "slots",
// "pairs", "symbols", "dim", "layers", "kv_heads", "head_dim", "ctx", "batch", "parameters",
// "steps", "seconds", "best_held_out", "accuracy"}. Without a memory there is no address, and
// update and slots are null, as is what was not measured; pairs and symbols are of the tasks that
// have them. accuracy: the last one.
std::string summary_json(const Checkpoint& checkpoint);
// Loss on training and on held-out data over steps, as SVG.
std::string loss_svg(const std::vector<LogPoint>& log, const std::string& title);

}  // namespace kvick::train
