#pragma once
// A helper for tests of Mistakes.

#include <functional>
#include <string>

#include "train/settings/mistake.h"

namespace kvick::train {

// Returns the message of the Mistake that `run` throws; empty if it throws none.
inline std::string mistake_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Mistake& mistake) {
    return mistake.what();
  }
  return "";
}

}  // namespace kvick::train
