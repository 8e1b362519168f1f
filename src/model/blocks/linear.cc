#include "model/blocks/linear.h"

#include <algorithm>

#include "model/blocks/activation.h"
#include "model/blocks/low_rank.h"

namespace kvick::model {
namespace {

using kernels::Matrix;

uint32_t tokens_of(std::span<const TokenRun> runs) {
  return runs.empty() ? 0 : runs.back().first + runs.back().tokens;
}

bool any_prompt(std::span<const TokenRun> runs) {
  return std::any_of(runs.begin(), runs.end(), [](const TokenRun& run) { return run.prompt; });
}

void add_bias(const Linear& linear, uint32_t first_token, uint32_t tokens, uint32_t first_panel,
              uint32_t last_panel, const kernels::Table& kernels, float* y) {
  if (linear.bias.empty()) return;
  const uint32_t begin = first_panel * kernels::kPanel;
  const uint32_t end = std::min(last_panel * kernels::kPanel, linear.w.rows);
  for (uint32_t t = first_token; t < first_token + tokens; ++t)
    kernels.add(y + size_t{t} * linear.w.rows + begin, linear.bias.data() + begin, end - begin);
}

// About four pieces per worker: enough to compensate for a core that is slower for a moment.
size_t grain_of(size_t panels, unsigned workers, uint32_t together) {
  const size_t piece = std::max<size_t>(1, panels / (size_t{workers} * 4));
  return (piece + together - 1) / together * together;
}

uint32_t together_of(std::span<const TokenRun> runs) {
  return any_prompt(runs) ? kernels::kPromptPanels : kernels::kPanelsTogether;
}

void multiply_runs(const kernels::Table& kernels, std::span<const RunInputs> inputs,
                   const Matrix& w, float* y, uint32_t from, uint32_t to) {
  for (const RunInputs& in : inputs) {
    float* out = y + size_t{in.run.first} * w.rows;
    if (in.run.prompt && kernels::has_prompt_matmul(w.dtype))
      kernels.matmul_prompt(w, in.prompt, out, w.rows, from, to);
    else if (takes_rounded(kernels, w.dtype))
      kernels.matmul_rounded(w, in.answer, out, w.rows, from, to);
    else
      kernels.matmul(w, in.answer, out, w.rows, from, to);
  }
}

void multiply(Workspace& workspace, std::span<const RunInputs> inputs,
              std::span<const TokenRun> runs, std::span<const Output> outputs) {
  size_t panels = 0;
  for (const Output& output : outputs) panels += output.linear->w.panels();
  const size_t grain = grain_of(panels, workspace.pool.size(), together_of(runs));
  workspace.pool.parallel_for(panels, grain, [&](size_t begin, size_t end, unsigned) {
    size_t first = 0;
    for (const Output& output : outputs) {
      const Matrix& w = output.linear->w;
      const size_t last = first + w.panels();
      if (std::max(begin, first) < std::min(end, last)) {
        const auto from = static_cast<uint32_t>(std::max(begin, first) - first);
        const auto to = static_cast<uint32_t>(std::min(end, last) - first);
        multiply_runs(workspace.kernels, inputs, w, output.y, from, to);
        add_bias(*output.linear, 0, tokens_of(runs), from, to, workspace.kernels, output.y);
      }
      first = last;
    }
  });
}

InputTypes types_of(const kernels::Table& kernels, std::span<const Output> outputs) {
  InputTypes types;
  for (const Output& output : outputs) types.add(kernels, output.linear->w.dtype);
  return types;
}

// Returns whether gate and up of prompts are multiplied together, with the same bits. This is
// impossible if an observer reads, or an adapter adds to, the result of gate or up.
bool together(const Workspace& workspace, std::span<const TokenRun> runs,
              const GatedLinear& layers) {
  const kernels::Table& kernels = workspace.kernels;
  const Matrix& gate = layers.gate.w;
  const Matrix& up = layers.up.w;
  return workspace.observer == nullptr && workspace.adapters.empty() &&
         kernels.matmul_prompt_gated != nullptr && any_prompt(runs) && !layers.gelu &&
         kernels::has_prompt_matmul(gate.dtype) && gate.dtype == up.dtype && gate.rows == up.rows &&
         gate.rows % kernels::kGroup == 0 && kernels::has_prompt_matmul(layers.down.w.dtype) &&
         layers.gate.bias.empty() && layers.up.bias.empty();
}

}  // namespace

std::vector<TokenRun> token_runs(const Batch& batch, TokenRange range,
                                 const kernels::Table& kernels) {
  std::vector<TokenRun> runs;
  uint32_t first = 0, behind = 0;
  for (const Slot& slot : batch.slots) {
    const bool prompt = slot.role != Role::kAnswer && kernels.matmul_prompt != nullptr;
    const uint32_t begin = std::max(behind, range.first);
    behind += static_cast<uint32_t>(slot.tokens.size());
    if (std::min(behind, range.end()) <= begin) continue;
    const uint32_t tokens = std::min(behind, range.end()) - begin;
    if (runs.empty() || runs.back().prompt != prompt)
      runs.push_back({.first = first, .tokens = tokens, .prompt = prompt});
    else
      runs.back().tokens += tokens;
    first += tokens;
  }
  return runs;
}

void project(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
             Workspace::TokenBody prepare, std::initializer_list<Output> all) {
  std::vector<Output> outputs;
  for (const Output& output : all)
    if (output.linear->w.rows > 0) outputs.push_back(output);
  const uint32_t inputs = outputs.front().linear->w.inputs;
  const InputTypes types = types_of(workspace.kernels, outputs);
  const std::span<const RunInputs> in = workspace.inputs(x, inputs, runs, types, prepare);
  if (workspace.observer != nullptr)
    for (const Output& output : outputs)
      workspace.observer->see(*output.linear, x, tokens_of(runs));
  multiply(workspace, in, runs, outputs);
  add_low_rank(workspace, x, outputs);
}

void project_each(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                  Workspace::TokenBody prepare, std::span<const RunOutput> outputs) {
  const kernels::Table& kernels = workspace.kernels;
  InputTypes types;
  std::vector<size_t> first;  // per output, the number of panels before it
  size_t panels = 0;
  for (const RunOutput& output : outputs) {
    types.add(kernels, output.linear->w.dtype);
    first.push_back(panels);
    panels += output.linear->w.panels();
  }
  const std::span<const RunInputs> in =
      workspace.inputs(x, outputs.front().linear->w.inputs, runs, types, prepare);
  if (workspace.observer != nullptr)
    for (const RunOutput& output : outputs) {
      const TokenRun& run = runs[output.run];
      workspace.observer->see(*output.linear, x + size_t{run.first} * output.linear->w.inputs,
                              run.tokens);
    }
  const size_t grain = grain_of(panels, workspace.pool.size(), together_of(runs));
  workspace.pool.parallel_for(panels, grain, [&](size_t begin, size_t end, unsigned) {
    auto at =
        static_cast<size_t>(std::upper_bound(first.begin(), first.end(), begin) - first.begin()) -
        1;
    for (; at < outputs.size() && first[at] < end; ++at) {
      const RunOutput& output = outputs[at];
      const Matrix& w = output.linear->w;
      const auto from = static_cast<uint32_t>(std::max(begin, first[at]) - first[at]);
      const auto to = static_cast<uint32_t>(std::min<size_t>(end - first[at], w.panels()));
      const TokenRun& run = runs[output.run];
      multiply_runs(kernels, in.subspan(output.run, 1), w, output.y, from, to);
      add_bias(*output.linear, run.first, run.tokens, from, to, kernels, output.y);
    }
  });
}

void project_gated(Workspace& workspace, std::span<const TokenRun> runs, const float* x,
                   Workspace::TokenBody prepare, const GatedLinear& layers, float* y) {
  const kernels::Table& kernels = workspace.kernels;
  const Matrix& gate = layers.gate.w;
  const Matrix& up = layers.up.w;
  const size_t ffn = gate.rows;
  float* gate_y = workspace.floats(Workspace::kFfn, 2 * tokens_of(runs) * ffn);
  float* up_y = gate_y + tokens_of(runs) * ffn;
  const auto gate_token = [&](uint32_t t) {
    float* const gated = gate_y + t * ffn;
    if (layers.sparsity != 0) keep_outliers(gated, ffn, layers.sparsity);
    if (layers.gelu) return gelu_mul(kernels, gated, up_y + t * ffn, ffn, gated);
    kernels.silu_mul(gated, up_y + t * ffn, ffn, gated);
  };
  const Output down[] = {{&layers.down, y}};
  if (!together(workspace, runs, layers)) {
    project(workspace, runs, x, prepare, {{&layers.gate, gate_y}, {&layers.up, up_y}});
    return project(workspace, runs, gate_y, gate_token, {down[0]});
  }
  InputTypes types;
  types.add(kernels, gate.dtype);
  const std::span<const RunInputs> in = workspace.inputs(x, gate.inputs, runs, types, prepare);
  const std::span<kernels::PromptActivations> gated = workspace.gated(runs, gate.rows);
  const size_t panels = gate.panels();
  const size_t grain = grain_of(panels, workspace.pool.size(), kernels::kPromptPanels);
  workspace.pool.parallel_for(panels, grain, [&](size_t begin, size_t end, unsigned) {
    const auto from = static_cast<uint32_t>(begin), to = static_cast<uint32_t>(end);
    for (size_t r = 0; r < in.size(); ++r) {
      if (in[r].run.prompt) {
        kernels.matmul_prompt_gated(gate, up, in[r].prompt, gated[r], from, to);
      } else {
        multiply_runs(kernels, in.subspan(r, 1), gate, gate_y, from, to);
        multiply_runs(kernels, in.subspan(r, 1), up, up_y, from, to);
      }
    }
  });
  multiply(workspace,
           workspace.inputs(gate_y, gate.rows, runs, types_of(kernels, down), gate_token, gated),
           runs, down);
}

}  // namespace kvick::model
