#pragma once
// The linear layers of a step. Prompt tokens may have their own arithmetic (Role), so runs of
// tokens with different arithmetic are multiplied separately.

#include <initializer_list>
#include <span>
#include <vector>

#include "model/core/model.h"
#include "model/core/weights.h"
#include "model/core/workspace.h"

namespace kvick::model {

// Returns the tokens of `range` as runs of equal arithmetic, in order. Indices count from the first
// token of the range.
std::vector<TokenRun> token_runs(const Batch& batch, TokenRange range,
                                 const kernels::Table& kernels);

// Computes y = linear(x) for several layers that read the same x, in one parallel region. x is
// quantised or rounded once, each row right after prepare(token) has filled it. Layers without rows
// are skipped.
struct Output {
  const Linear* linear;
  float* y;  // [tokens][linear->w.rows]
};
void project(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
             Workspace::TokenBody prepare, std::initializer_list<Output> outputs);

// Does the same where each run has its own layers, as with experts: a layer reads only its run. All
// layers must have the same number of inputs.
struct RunOutput {
  size_t run;  // index in runs
  const Linear* linear;
  float* y;  // [all tokens][linear->w.rows]
};
void project_each(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                  Workspace::TokenBody prepare, std::span<const RunOutput> outputs);

// Computes y = down(silu(gate(x)) * up(x)), or the same with gelu, which may have a sparse gate
// (LayerConfig::sparsity). For prompt tokens, silu, and gate and up of one type without biases, the
// product is rounded as it is computed and never stored as floats.
struct GatedLinear {
  const Linear& gate;
  const Linear& up;
  const Linear& down;
  bool gelu = false;
  float sparsity = 0;  // with gelu only
};
void project_gated(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                   Workspace::TokenBody prepare, const GatedLinear& layers, float* y);

}  // namespace kvick::model
