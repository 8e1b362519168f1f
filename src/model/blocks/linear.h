#pragma once
// The linear layers of a step. Prompt tokens may have an arithmetic of their own (Role): runs of
// tokens with different arithmetic are multiplied separately.

#include <initializer_list>
#include <span>
#include <vector>

#include "model/core/model.h"
#include "model/core/weights.h"
#include "model/core/workspace.h"

namespace kvick::model {

// The tokens of `range` as runs of equal arithmetic, in order, counted from the range's first.
std::vector<TokenRun> token_runs(const Batch& batch, TokenRange range,
                                 const kernels::Table& kernels);

// y = linear(x) for several layers that read the same x, in one parallel region; x is quantised or
// rounded once, each row just after prepare(token) has filled it. Layers without rows are left out.
struct Output {
  const Linear* linear;
  float* y;  // [tokens][linear->w.rows]
};
void project(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
             Workspace::TokenBody prepare, std::initializer_list<Output> outputs);

// The same where each run has its own layers, which read only that run, as with experts. All layers
// have the same number of inputs.
struct RunOutput {
  size_t run;  // index in runs
  const Linear* linear;
  float* y;  // [all tokens][linear->w.rows]
};
void project_each(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                  Workspace::TokenBody prepare, std::span<const RunOutput> outputs);

// y = down(silu(gate(x)) * up(x)), or with gelu, which may have a sparse gate
// (LayerConfig::sparsity). For prompt tokens, silu and gate and up of one type without biases, the
// product is rounded as it is computed and never written as floats.
struct GatedLinear {
  const Linear& gate;
  const Linear& up;
  const Linear& down;
  bool gelu = false;
  float sparsity = 0;  // with gelu
};
void project_gated(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                   Workspace::TokenBody prepare, const GatedLinear& layers, float* y);

}  // namespace kvick::model
