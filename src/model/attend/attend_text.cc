#include "model/attend/attend_text.h"

#include <algorithm>

namespace kvick::model {
namespace {

// Query rows of one task, and approximately those of a prompt's task, as in attend.cc.
constexpr uint32_t kTileQueries = 128;
constexpr uint32_t kPromptQueries = 384;

// Attention of one KV head for some of a slot's tokens.
struct TextTask {
  uint32_t row = 0, length = 0;    // the slot's first token in the batch; the slot's tokens
  uint32_t first = 0, tokens = 0;  // index in the slot, and count
  uint32_t head = 0;
  Role role = Role::kAnswer;
};

// Returns how many tokens to each side a query sees.
uint32_t reach_of(const LayerConfig& layer) { return layer.window / 2; }

// Presents a text's keys and values to the causal kernels. A query that sees `reach` tokens to each
// side sees the same rows as a causal query `reach` positions later with a window. So a task's
// queries get positions greater by `reach`. The rows up to `reach` after the task's first token
// count as past. Later rows count as fresh, because each token sees one more of them than the token
// before it. Near the end of the text there are no more rows to add, so add_tasks starts a new task
// there.
class TextView {
 public:
  TextView(const LayerConfig& layer, const TextTask& task, const Attended& attended) {
    const uint32_t reach = reach_of(layer);
    const bool windowed = layer.window != 0;
    const uint32_t begin = windowed && task.first > reach ? task.first - reach : 0;
    const uint32_t end = windowed ? std::min(task.first + reach, task.length) : task.length;
    past_ = {begin, end - begin, begin};
    kernels::Segment rows = segment(layer, task, attended);
    if (windowed && end < task.length) {
      fresh_ = {end, task.tokens, end};
      view.fresh = rows;
      view.fresh.runs = {&fresh_, 1};
    }
    if (past_.rows == 0) return;
    rows.runs = {&past_, 1};
    view.past.push_back(rows);
  }
  TextView(const TextView&) = delete;
  TextView& operator=(const TextView&) = delete;

  kernels::View view;

 private:
  static kernels::Segment segment(const LayerConfig& layer, const TextTask& task,
                                  const Attended& attended) {
    const float* const k =
        attended.k + size_t{task.row} * layer.k_floats() + size_t{task.head} * layer.k_dim;
    const float* const v =
        attended.v + size_t{task.row} * layer.v_floats() + size_t{task.head} * layer.v_dim;
    return {.k = reinterpret_cast<const std::byte*>(k),
            .v = reinterpret_cast<const std::byte*>(v),
            .k_stride = static_cast<uint32_t>(layer.k_floats() * sizeof(float)),
            .v_stride = static_cast<uint32_t>(layer.v_floats() * sizeof(float))};
  }

  kernels::Run past_{}, fresh_{};
};

kernels::Queries queries_of(const LayerConfig& layer, const TextTask& task,
                            const Attended& attended) {
  const size_t head = size_t{task.head} * layer.group();
  return {.q = attended.q + size_t{task.row + task.first} * layer.q_floats() + head * layer.k_dim,
          .q_stride = layer.q_floats(),
          .tokens = task.tokens,
          .group = layer.group(),
          .k_dim = layer.k_dim,
          .v_dim = layer.v_dim,
          .scale = layer.scale,
          .softcap = layer.softcap,
          .sinks = attended.sinks != nullptr ? attended.sinks + head : nullptr,
          .slopes = attended.slopes != nullptr ? attended.slopes + head : nullptr,
          .window = layer.window,
          .position = task.first + reach_of(layer)};
}

void add_tasks(const LayerConfig& layer, const Slot& slot, uint32_t row,
               std::vector<TextTask>& tasks) {
  const auto length = static_cast<uint32_t>(slot.tokens.size());
  const uint32_t most = slot.role == Role::kPrompt ? kPromptQueries : kTileQueries;
  const uint32_t tile = std::max(1U, most / layer.group());
  // From this token on, queries see the end of the text.
  const uint32_t open = layer.window == 0 ? 0 : length - std::min(length, reach_of(layer));
  for (uint32_t head = 0; head < layer.kv_heads; ++head)
    for (uint32_t first = 0, tokens = 0; first < length; first += tokens) {
      tokens = std::min(tile, (first < open ? open : length) - first);
      tasks.push_back({.row = row,
                       .length = length,
                       .first = first,
                       .tokens = tokens,
                       .head = head,
                       .role = slot.role});
    }
}

kernels::Partial partial_at(float* memory, uint32_t queries) {
  return {.max = memory, .sum = memory + queries, .acc = memory + size_t{2} * queries};
}

}  // namespace

void attend_text(const LayerConfig& layer, const Batch& batch, const Attended& attended,
                 Workspace& workspace) {
  const kernels::Table& kernels = workspace.kernels;
  std::vector<TextTask> tasks;
  uint32_t row = 0;
  for (const Slot& slot : batch.slots) {
    KVICK_CHECK(slot.past == 0 && slot.parents.empty(), "an encoder reads {} tokens behind {}",
                slot.tokens.size(), slot.past);
    add_tasks(layer, slot, row, tasks);
    row += static_cast<uint32_t>(slot.tokens.size());
  }
  uint32_t most = 0;
  for (const TextTask& task : tasks) most = std::max(most, task.tokens * layer.group());
  const size_t floats = size_t{most} * (2 + layer.v_dim);
  float* const memory = workspace.floats(Workspace::kPartials, workspace.pool.size() * 2 * floats);
  const auto run = [&](const TextTask& task, unsigned worker) {
    const TextView rows(layer, task, attended);
    const kernels::Queries queries = queries_of(layer, task, attended);
    const auto attend = task.role == Role::kPrompt ? kernels.attend_prompt : kernels.attend_chunk;
    const uint32_t count = task.tokens * layer.group();
    const kernels::Partial state = partial_at(memory + worker * 2 * floats, count);
    const kernels::Partial next = partial_at(memory + (worker * 2 + 1) * floats, count);
    const uint32_t chunks = kernels::chunk_count(rows.view, queries);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      attend(rows.view, queries, chunk, chunk == 0 ? state : next, nullptr);
      if (chunk > 0) kernels.merge(state, next, count, layer.v_dim);
    }
    float* const out = attended.out + size_t{task.row + task.first} * layer.out_floats() +
                       size_t{task.head} * layer.group() * layer.v_dim;
    kernels.finish(state, rows.view, queries, out, layer.out_floats());
  };
  workspace.pool.parallel_for(tasks.size(), 1, [&](size_t begin, size_t end, unsigned worker) {
    for (size_t i = begin; i < end; ++i) run(tasks[i], worker);
  });
}

}  // namespace kvick::model
