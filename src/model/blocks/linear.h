#pragma once
// The linear layers of a step. Tokens of prompts may have an arithmetic of their own (Role): then
// the runs of tokens of one arithmetic are multiplied apart.

#include <initializer_list>
#include <span>
#include <vector>

#include "model/core/model.h"
#include "model/core/weights.h"
#include "model/core/workspace.h"

namespace kvick::model {

// Those tokens of the batch by arithmetic, in order, counted from the first of them.
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

// The same where each run has layers of its own, which read no other run: those of experts. All
// have the same number of inputs.
struct RunOutput {
  size_t run;  // index in runs
  const Linear* linear;
  float* y;  // [all tokens][linear->w.rows]
};
void project_each(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                  Workspace::TokenBody prepare, std::span<const RunOutput> outputs);

// y = down(silu(gate(x)) * up(x)), or with gelu, and of a sparse gate (LayerConfig::sparsity).
// Where tokens of prompts meet matrices of one type without biases, what is between, with silu, is
// rounded where it is made and never written as floats.
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
