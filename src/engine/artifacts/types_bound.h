#pragma once
// Whether a type's loss, measured on one text, allows its use on other texts.

#include "engine/artifacts/types_file.h"

namespace kvick::engine {

// On texts other than the measured one, the divergence of a type was up to 21 % higher
// (docs/results/kv-types.md), so a margin of a quarter is kept.
inline bool is_within(const TypeMeasured& measured, double kl) {
  return measured.kl_mean * 1.25 <= kl;
}

}  // namespace kvick::engine
