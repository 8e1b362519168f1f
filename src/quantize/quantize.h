#pragma once
// Writes a model file again with smaller weights, for `kvick quantize`.

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
  // Types of tensors by name pattern, in which * matches any text. The first match overrides the
  // recipe.
  std::vector<std::pair<std::string, kernels::DType>> overrides;
  const Importance* importance = nullptr;
  std::function<void(uint64_t done, uint64_t total)> progress;  // bytes of the source's tensors
};

// One tensor of the output file.
struct Choice {
  const SourceTensor* tensor = nullptr;
  kernels::DType type{};
  bool weighted = false;  // the importance of at least one of its matrices is known
  uint64_t bytes = 0;
  // Sums over its weights: of squared errors, and of squares.
  double error = 0, squares = 0;

  bool kept() const { return type == tensor->type; }
};

// Chooses the type of each tensor, before anything is written. Errors: an override that matches no
// tensor; a type that needs importance (needs_importance) that is not known.
base::Result<std::vector<Choice>> choose(const Source& source, const Options& options);

// Writes the GGUF file `to`, which appears complete or not at all, and sets the choices' errors.
// Needs a few megabytes of memory for rows. Errors: a weight is not finite, or `to` cannot be
// written.
base::Status<> write(const Source& source, const Options& options, std::vector<Choice>& choices,
                     const std::string& to, base::ThreadPool& pool);

}  // namespace kvick::quantize
