#pragma once
// The log of a run for people and for programs.

#include <string>
#include <vector>

#include "train/checkpoint.h"

namespace kvick::train {

// [{"step", "loss", "held_out", "accuracy", "seconds"}, ...], null where nothing was measured.
std::string log_json(const std::vector<LogPoint>& log);
// Loss on training and on held-out data over steps, as SVG.
std::string loss_svg(const std::vector<LogPoint>& log, const std::string& title);

}  // namespace kvick::train
