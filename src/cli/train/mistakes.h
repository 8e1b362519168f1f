#pragma once

#include "base/result.h"
#include "train/settings/mistake.h"

namespace kvick::cli {

// Calls `run` and returns a train::Mistake that it throws as an Error, as other mistakes are
// reported.
template <typename Run>
base::Result<int> mistakes_of(const Run& run) {
  try {
    return run();
  } catch (const train::Mistake& mistake) {
    return base::Error{mistake.what()};
  }
}

}  // namespace kvick::cli
