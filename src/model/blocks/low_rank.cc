#include "model/blocks/low_rank.h"

#include <algorithm>

namespace kvick::model {
namespace {

// Tokens of a run that share one read of a piece of B.
constexpr uint32_t kTokensTogether = 4;
// With fewer products than this, a parallel region costs more than the work.
constexpr size_t kWorthwhileProducts = 16384;

// One adapted layer for one run of tokens.
struct Task {
  const LowRank* layer;
  const AdapterRun* run;
  float* y;              // output of the run's first token
  size_t first_product;  // index of its A x, [tokens][rank], among the products of all tasks
  size_t first_piece;    // index of its [pieces][token groups] among the pieces of all tasks
  uint32_t token_groups() const { return (run->tokens + kTokensTogether - 1) / kTokensTogether; }
};

struct Tasks {
  std::vector<Task> all;
  size_t products = 0, pieces = 0;
};

Tasks tasks_of(std::span<const AdapterRun> runs, std::span<const Output> outputs) {
  Tasks tasks;
  for (const AdapterRun& run : runs)
    for (const Output& output : outputs) {
      const LowRank* const layer = run.adapter->find(output.linear->tensor);
      if (layer == nullptr) continue;
      const kernels::Matrix& w = output.linear->w;
      KVICK_CHECK(layer->inputs == w.inputs && layer->outputs == w.rows,
                  "an adapter of {} x {} for {} of {} x {}", layer->outputs, layer->inputs,
                  output.linear->tensor, w.rows, w.inputs);
      tasks.all.push_back({.layer = layer,
                           .run = &run,
                           .y = output.y + size_t{run.first} * w.rows,
                           .first_product = tasks.products,
                           .first_piece = tasks.pieces});
      tasks.products += size_t{run.tokens} * layer->rank;
      tasks.pieces += size_t{layer->pieces()} * tasks.all.back().token_groups();
    }
  return tasks;
}

// Returns the task that `item` belongs to. first: the member with the index of a task's first item.
const Task& task_of(const Tasks& tasks, size_t Task::*first, size_t item) {
  const auto after =
      std::upper_bound(tasks.all.begin(), tasks.all.end(), item,
                       [&](size_t wanted, const Task& task) { return wanted < task.*first; });
  return *std::prev(after);
}

void multiply_a(Workspace& workspace, const Tasks& tasks, const float* x, float* products) {
  const size_t inputs = tasks.all.front().layer->inputs;
  const size_t grain = std::max<size_t>(1, kWorthwhileProducts / inputs);
  workspace.pool.parallel_for(tasks.products, grain, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end;) {
      const Task& task = task_of(tasks, &Task::first_product, i);
      const LowRank& layer = *task.layer;
      const size_t at = i - task.first_product, row = at % layer.rank;
      const size_t rows = std::min(layer.rank - row, end - i);
      const uint16_t* const a = layer.a.data() + row * inputs;
      const float* const token = x + (task.run->first + at / layer.rank) * inputs;
      workspace.kernels.dot_rows(kernels::DType::kF16, reinterpret_cast<const std::byte*>(a),
                                 inputs * sizeof(uint16_t), rows, token, inputs, products + i);
      for (const size_t last = i + rows; i < last; ++i)
        products[i] *= task.run->scale * layer.factor;
    }
  });
}

// Adds one piece of the outputs, for some of a task's tokens.
void add_piece(const kernels::Table& kernels, const Task& task, size_t item,
               const float* products) {
  const LowRank& layer = *task.layer;
  const auto piece = static_cast<uint32_t>(item / task.token_groups());
  const size_t token = item % task.token_groups() * kTokensTogether;
  const size_t tokens = std::min<size_t>(kTokensTogether, task.run->tokens - token);
  const size_t count = layer.outputs_of(piece);
  float sums[kTokensTogether * LowRank::kPiece];
  kernels.dot_columns(kernels::DType::kF16, reinterpret_cast<const std::byte*>(layer.piece(piece)),
                      {.rows = count, .stride = count, .dims = layer.rank},
                      products + task.first_product + token * layer.rank, tokens, sums, count);
  float* const y = task.y + token * layer.outputs + size_t{piece} * LowRank::kPiece;
  for (size_t t = 0; t < tokens; ++t) kernels.add(y + t * layer.outputs, sums + t * count, count);
}

}  // namespace

std::vector<AdapterRun> adapter_runs(const Batch& batch, TokenRange range) {
  std::vector<AdapterRun> runs;
  uint32_t behind = 0;
  for (const Slot& slot : batch.slots) {
    const uint32_t begin = std::max(behind, range.first);
    behind += static_cast<uint32_t>(slot.tokens.size());
    const uint32_t end = std::min(behind, range.end());
    if (end <= begin || slot.adapter == nullptr) continue;
    const uint32_t first = begin - range.first, tokens = end - begin;
    AdapterRun* const last = runs.empty() ? nullptr : &runs.back();
    if (last != nullptr && last->adapter == slot.adapter && last->scale == slot.adapter_scale &&
        last->first + last->tokens == first)
      last->tokens += tokens;
    else
      runs.push_back({first, tokens, slot.adapter, slot.adapter_scale});
  }
  return runs;
}

void add_low_rank(Workspace& workspace, const float* x, std::span<const Output> outputs) {
  if (workspace.adapters.empty()) return;
  const Tasks tasks = tasks_of(workspace.adapters, outputs);
  if (tasks.all.empty()) return;
  float* const products = workspace.floats(Workspace::kLowRank, tasks.products);
  multiply_a(workspace, tasks, x, products);
  const size_t widest = tasks.all.front().layer->rank * size_t{LowRank::kPiece};
  const size_t grain = std::max<size_t>(1, kWorthwhileProducts / widest);
  workspace.pool.parallel_for(tasks.pieces, grain, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      const Task& task = task_of(tasks, &Task::first_piece, i);
      add_piece(workspace.kernels, task, i - task.first_piece, products);
    }
  });
}

}  // namespace kvick::model
