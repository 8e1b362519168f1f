#pragma once
// Internal to base/: what a processor says of itself, in a file for each architecture.

#include "base/cpu.h"

namespace kvick::base {

CpuFeatures detect_cpu_features();  // of cpu_features(), which asks once

}  // namespace kvick::base
