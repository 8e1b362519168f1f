#pragma once
// The calibration pass of static quantisation: measures how large a model's keys and values become
// on a text.

#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"
#include "engine/artifacts/ranges_file.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct RangesOptions {
  uint32_t window = 512;  // tokens that are read as one sequence; at most the model's context
  uint32_t most = 0;      // use only this many tokens of the text; 0: all
  // Ranges exceed the largest magnitude seen by this share: 0.1 for a tenth.
  double margin = 0.1;
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

// Runs the text through the model with a cache of float32 and takes the largest magnitudes of its
// rows. Errors: no token; a margin outside 0 to 10; layers of different kinds; a key or value that
// is not finite; no room.
base::Result<Ranges> measure_ranges(Engine& engine, std::span<const Token> text,
                                    const RangesOptions& options);

}  // namespace kvick::engine
