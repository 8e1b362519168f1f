#pragma once

#include "base/result.h"
#include "train/settings/mistake.h"

namespace kvick::cli {

// What folder train/ throws for a user's mistake, as the result that other mistakes are.
template <typename Run>
base::Result<int> mistakes_of(const Run& run) {
  try {
    return run();
  } catch (const train::Mistake& mistake) {
    return base::Error{mistake.what()};
  }
}

}  // namespace kvick::cli
