#pragma once
// The option --reuse: which rows of earlier prompts a prompt may reuse.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace kvick::engine {

struct ReuseOptions {
  // Also reuses rows of tokens that stood at another position, after other tokens. These rows
  // differ from those that the prompt itself would compute, so its answer may differ as well.
  bool shift = false;
  uint32_t least = 64;                  // tokens of the shortest run that is reused
  uint32_t seam = 16;                   // tokens at the front of a run that are computed again
  size_t most_known = size_t{1} << 20;  // tokens of earlier texts that are remembered
};

// Parses exact, or shift[:least=N,seam=N]. Errors name the valid forms and options.
base::Result<ReuseOptions> parse_reuse_options(std::string_view text);

}  // namespace kvick::engine
