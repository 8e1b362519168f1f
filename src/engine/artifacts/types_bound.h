#pragma once
// Whether what a type of rows lost on one text allows it on others.

#include "engine/artifacts/types_file.h"

namespace kvick::engine {

// On texts that it was not measured on, a type strayed up to 21 % further
// (docs/results/kv-types.md), so that a quarter is to spare.
inline bool is_within(const TypeMeasured& measured, double kl) {
  return measured.kl_mean * 1.25 <= kl;
}

}  // namespace kvick::engine
