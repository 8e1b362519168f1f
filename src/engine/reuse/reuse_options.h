#pragma once
// How much of an earlier prompt's rows a prompt may take, as --reuse has it.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace kvick::engine {

struct ReuseOptions {
  // Also rows of tokens that stand at another place, behind other tokens. Such rows are not those
  // that the prompt would have: its answer may differ from what it is without.
  bool shift = false;
  uint32_t least = 64;  // tokens in a row that are worth it
  uint32_t seam = 16;   // of them, those at the front that are computed all the same
  size_t most_known = size_t{1} << 20;  // tokens of earlier texts that are remembered
};

// exact, or shift[:least=N,seam=N]. Errors list what exists.
base::Result<ReuseOptions> parse_reuse_options(std::string_view text);

}  // namespace kvick::engine
