#pragma once
// A model file written again with smaller weights: kvick quantize.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "quantize/importance.h"
#include "quantize/recipe.h"
#include "quantize/source.h"

#include "base/result.h"
#include "base/thread_pool.h"
#include "io/file/model_file.h"

namespace kvick::quantize {

struct Options {
  const Recipe* recipe = nullptr;
  // Tensor types by name pattern, in which * matches any text; the first match overrides the
  // recipe.
  std::vector<std::pair<std::string, kernels::DType>> overrides;
  const Importance* importance = nullptr;
  std::function<void(uint64_t done, uint64_t total)> progress;  // bytes of the source's tensors
};

// One tensor of the output file.
struct Choice {
  const SourceTensor* tensor = nullptr;
  kernels::DType type{};
  bool weighted = false;  // its importance is known
  uint64_t bytes = 0;
  // Of its weights: sums of squared errors and of squares.
  double error = 0, squares = 0;

  bool kept() const { return type == tensor->type; }
};

// What each tensor becomes, before anything is written. Errors: an override that fits no tensor; a
// type that needs importance (needs_importance) where it is not known.
base::Result<std::vector<Choice>> choose(const Source& source, const Options& options);

// Writes the GGUF file `to`, which appears whole or not at all, and fills in the choices' errors.
// Needs memory for a few megabytes of rows. Errors: a weight that is not finite, `to` cannot be
// written.
base::Status<> write(const Source& source, const Options& options, std::vector<Choice>& choices,
                     const std::string& to, base::ThreadPool& pool);

}  // namespace kvick::quantize
