#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "quantize/importance.h"

#include "base/result.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct ImportanceOptions {
  uint32_t window = 512;  // tokens that are read as one sequence; at most the model's context
  uint32_t most = 0;      // use only this many tokens of the text; 0: all
  std::string text;       // name of the text, for the file
  std::function<void(uint64_t done, uint64_t total)> progress;  // tokens
};

// Runs the text through the model and sums the squares of each linear layer's inputs. The output
// layer reads every eighth token. Errors: no token, an activation that is not finite, no room.
base::Result<quantize::Importance> measure_importance(Engine& engine, std::span<const Token> text,
                                                      const ImportanceOptions& options);

}  // namespace kvick::engine
