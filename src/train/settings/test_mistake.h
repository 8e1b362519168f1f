#pragma once
// What a Mistake says, for tests.

#include <functional>
#include <string>

#include "train/settings/mistake.h"

namespace kvick::train {

// Of the one that `run` throws; empty: it throws none.
inline std::string mistake_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Mistake& mistake) {
    return mistake.what();
  }
  return "";
}

}  // namespace kvick::train
