#pragma once
// Internal to base/: detection of processor features, one source file per architecture.

#include "base/cpu.h"

namespace kvick::base {

CpuFeatures detect_cpu_features();  // not cached; cpu_features() calls it once

}  // namespace kvick::base
