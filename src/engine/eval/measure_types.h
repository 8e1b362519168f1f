#pragma once
// Measures what types of cache rows cost on a model and a text: how far its predictions diverge
// from those with rows of f16.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/artifacts/types_file.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct TypesOptions {
  // As --kv-type takes them; empty: those of a list from f16 to q2 that fit the model.
  std::vector<std::string> types;
  uint32_t window = 1024;  // tokens of one sequence
  uint32_t most = 0;       // use only this many tokens of the text; 0: all
  double kl = 0.01;        // limit on the loss of the recommended type, in nats a token
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens, of all types
};

struct TypesMeasured {
  double f16_perplexity = 0;
  uint64_t tokens = 0;  // tokens predicted with each type
  // Ordered by bytes, most first; ties in the order of the options.
  std::vector<TypeMeasured> types;
  // Index in `types` of the one with the fewest bytes within TypesOptions::kl (is_within); their
  // number if there is none.
  size_t recommended = 0;
};

// Takes the time of two passes over the text for each type. A type such as "auto" stands for the
// type that its measurement recommends. Errors: a type that does not exist or that the model cannot
// have, and those of perplexity().
base::Result<TypesMeasured> measure_types(Engine& engine, std::span<const Token> text,
                                          const TypesOptions& options);

}  // namespace kvick::engine
