#pragma once
// Internal to base/: what a processor says of itself, in a file for each architecture.

#include "base/cpu.h"

namespace kvick::base {

CpuFeatures detect_cpu_features();  // uncached: cpu_features() calls it once

}  // namespace kvick::base
