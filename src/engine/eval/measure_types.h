#pragma once
// What types of cache rows cost on a model and a text: how far it strays from rows of f16.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/artifacts/types_file.h"
#include "engine/core/engine.h"

namespace kvick::engine {

struct TypesOptions {
  std::vector<std::string> types;  // as --kv-type takes them; empty: those of
                                   // standard_types() that the model can have
  uint32_t window = 1024;          // tokens of one sequence
  uint32_t most = 0;               // tokens of the text that count; 0: all
  double kl = 0.01;                // what the recommended type may lose, in nats a token
  std::function<void(uint64_t done, uint64_t total)> progress = {};  // tokens, of all types
};

struct TypesMeasured {
  double f16_perplexity = 0;
  uint64_t tokens = 0;              // predicted, by each type
  std::vector<TypeMeasured> types;  // the most bytes first, then as they were named
  // Of `types`, the fewest bytes within TypesOptions::kl (is_within); past the end: none is.
  size_t recommended = 0;
};

std::span<const char* const> standard_types();

// Takes the time of two passes over the text for each type. Errors: a type that does not exist or
// that the model cannot have, and those of perplexity().
// A type that a measurement chooses is the one that it chose.
base::Result<TypesMeasured> measure_types(Engine& engine, std::span<const Token> text,
                                          const TypesOptions& options);

}  // namespace kvick::engine
