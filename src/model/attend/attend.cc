#include "model/attend/attend.h"

#include <algorithm>
#include <utility>

#include "model/attend/attend_buckets.h"

namespace kvick::model {
namespace {

// Chunks of rows are merged in order however the work is split, so the split never changes a bit of
// the result.

// Query rows (tokens x group) of one task, the most that the kernels take at once: they transpose
// each block of keys once for all of them. Reading 8192 tokens of SmolLM2's shape with 32, 64 and
// 128 rows: 534, 584 and 617 tokens/s.
constexpr uint32_t kTileQueries = 128;
// Approximate query rows of a task of prompts: its kernels convert keys and values once for all of
// them.
constexpr uint32_t kPromptQueries = 384;
// Views that one thread makes before other threads help.
constexpr size_t kViewGrain = 64;
constexpr size_t kChoosingGrain = 1;  // if views depend on the queries and take work

}  // namespace

BatchAttention::BatchAttention(const Config& config, const Batch& batch, TokenRange range,
                               kv::Step& step, Workspace& workspace)
    : config_(config),
      step_(step),
      workspace_(workspace),
      kernels_(workspace.kernels),
      slots_(batch.slots),
      hadamard_(batch.hadamard) {
  uint32_t row = 0, behind = 0;
  for (const Slot& slot : slots_) {
    paths_.push_back(paths_of(slot));
    KVICK_CHECK(slot.role != Role::kPrompt || kernels_.attend_prompt != nullptr,
                "{} has no arithmetic of prompts", base::isa_name(kernels_.isa));
    first_row_.push_back(row);
    const uint32_t begin =
        std::exchange(behind, behind + static_cast<uint32_t>(slot.tokens.size()));
    const uint32_t from = std::clamp(range.first, begin, behind);
    skipped_.push_back(from - begin);
    row += std::max(from, std::min(behind, range.end())) - from;
  }
  first_row_.push_back(row);
  for (const Paths& paths : paths_) trees_.push_back(paths.of.empty() ? nullptr : paths.of.data());
  facets_ = step_.facets();
  if (facets_.observer != nullptr) worker_probs_.resize(workspace_.pool.size());
}

BatchAttention::Plan BatchAttention::make_plan(const LayerConfig& layer) const {
  Plan plan = {.heads = layer.heads, .kv_heads = layer.kv_heads, .tasks = {}};
  for (uint32_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    const uint32_t tokens = first_row_[s + 1] - first_row_[s];
    if (tokens == 0) continue;
    const uint32_t tile = tile_tokens(slot.role, tokens, layer.group());
    plan.most_queries = std::max(plan.most_queries, tile * layer.group());
    for (uint32_t head = 0; head < layer.kv_heads; ++head)
      for (uint32_t first = 0; first < tokens; first += tile)
        plan.tasks.push_back({.view = s * layer.kv_heads + head,
                              .slot = s,
                              .head = head,
                              .first = skipped_[s] + first,
                              .tokens = std::min(tile, tokens - first),
                              .row = first_row_[s] + first,
                              .role = slot.role});
  }
  return plan;
}

void BatchAttention::enter(uint32_t layer, const Attended& attended) {
  numbers_ = &config_.layers[layer];
  rows_layer_ = numbers_->owns_rows() ? layer : numbers_->rows_of;
  attended_ = attended;
  apart_ = facets_.observer != nullptr ? facets_.observer->apart(rows_layer_) : 0;
  const auto fits = [&](const Plan& plan) {
    return plan.heads == numbers_->heads && plan.kv_heads == numbers_->kv_heads;
  };
  if (plan_ != nullptr && fits(*plan_)) return;
  const auto found = std::find_if(plans_.begin(), plans_.end(), fits);
  if (found == plans_.end()) {
    plans_.push_back(make_plan(*numbers_));
    plan_ = &plans_.back();
  } else {
    plan_ = &*found;
  }
  views_.resize(slots_.size() * numbers_->kv_heads);
  if (facets_.observer != nullptr) task_probs_.resize(plan_->tasks.size());
}

BatchAttention::Paths BatchAttention::paths_of(const Slot& slot) {
  Paths paths;
  if (slot.parents.empty()) return paths;
  std::vector<size_t> begin;
  std::vector<uint32_t> path;
  for (size_t i = 0; i < slot.tokens.size(); ++i) {
    path.clear();
    for (auto at = static_cast<int32_t>(i); at >= 0; at = slot.parents[static_cast<size_t>(at)])
      path.push_back(static_cast<uint32_t>(at));
    begin.push_back(paths.rows.size());
    paths.rows.insert(paths.rows.end(), path.rbegin(), path.rend());
  }
  begin.push_back(paths.rows.size());
  for (size_t i = 0; i < slot.tokens.size(); ++i)
    paths.of.emplace_back(paths.rows.data() + begin[i], begin[i + 1] - begin[i]);
  return paths;
}

void BatchAttention::run(uint32_t layer, const Attended& attended) {
  enter(layer, attended);
  for (base::Arena& arena : workspace_.scratch) arena.reset();
  if (chooses_few()) {
    run_choosing();
    if (facets_.observer != nullptr) observe_all();
    return;
  }
  base::ThreadPool& pool = workspace_.pool;
  const size_t grain = facets_.per_query ? kChoosingGrain : kViewGrain;
  pool.parallel_for(views_.size(), grain, [&](size_t begin, size_t end, unsigned worker) {
    for (size_t i = begin; i < end; ++i) make_view(i, worker);
  });
  if (workspace_.library != nullptr && kernels::bucket_attention_serves(queries(plan_->tasks[0])))
    return run_library();
  if (!gives_probs() && plan_->tasks.size() < size_t{2} * pool.size() && most_chunks() > 1) {
    run_by_chunk();
  } else {
    worker_partials_ = workspace_.floats(Workspace::kPartials,
                                         pool.size() * 2 * partial_floats(plan_->most_queries));
    pool.parallel_for(plan_->tasks.size(), 1, [&](size_t begin, size_t end, unsigned worker) {
      for (size_t i = begin; i < end; ++i) run_task(i, worker);
    });
  }
  if (facets_.observer != nullptr) observe_all();
}

void BatchAttention::read(uint32_t layer, const Attended& attended) {
  step_.facets().slots->read(layer, {.group = config_.layers[layer].group(),
                                     .q = attended.q,
                                     .out = attended.out,
                                     .paths = trees_});
}

// Cuts a prompt into equal pieces; with a short last piece, threads would wait for each other.
uint32_t BatchAttention::tile_tokens(Role role, uint32_t tokens, uint32_t group) {
  if (role != Role::kPrompt) return std::max(1u, kTileQueries / group);
  const uint32_t pieces = (tokens * group + kPromptQueries - 1) / kPromptQueries;
  return (tokens + pieces - 1) / pieces;
}

const float* BatchAttention::q_of(uint32_t row, uint32_t head) const {
  return attended_.q + size_t{row} * numbers_->q_floats() +
         size_t{head} * numbers_->group() * numbers_->k_dim;
}

const kernels::View* BatchAttention::view_after(size_t i) const {
  const std::vector<Task>& tasks = plan_->tasks;
  if (i + 1 == tasks.size() || tasks[i + 1].view == tasks[i].view) return nullptr;
  return &views_[tasks[i + 1].view];
}

const float* BatchAttention::sinks_of(uint32_t head) const {
  return attended_.sinks == nullptr ? nullptr : attended_.sinks + size_t{head} * numbers_->group();
}

kernels::Queries BatchAttention::queries(const Task& task) const {
  return {.q = q_of(task.row, task.head),
          .q_stride = numbers_->q_floats(),
          .first = task.first,
          .tokens = task.tokens,
          .group = numbers_->group(),
          .k_dim = numbers_->k_dim,
          .v_dim = numbers_->v_dim,
          .scale = numbers_->scale,
          .softcap = numbers_->softcap,
          .sinks = sinks_of(task.head),
          .visible = trees_[task.slot],
          .window = numbers_->window,
          .chunked = numbers_->chunked,
          .position = slots_[task.slot].past};
}

void BatchAttention::attend_chunk(const Task& task, const kernels::Queries& queries, uint32_t chunk,
                                  kernels::Partial out, float* probs) const {
  const auto attend = task.role == Role::kPrompt ? kernels_.attend_prompt : kernels_.attend_chunk;
  attend(views_[task.view], queries, chunk, out, probs);
}

kv::Query BatchAttention::query_of(size_t view) const {
  const auto slot = static_cast<uint32_t>(view / numbers_->kv_heads);
  const auto head = static_cast<uint32_t>(view % numbers_->kv_heads);
  // A policy reads one sink for each query head of the layer that owns the rows; this layer may
  // have fewer heads.
  const bool alike = config_.layers[rows_layer_].group() == numbers_->group();
  return {.slot = slot,
          .layer = rows_layer_,
          .head = head,
          .q = q_of(first_row_[slot], head),
          .q_stride = numbers_->q_floats(),
          .scale = numbers_->scale,
          .softcap = numbers_->softcap,
          .sinks = alike ? sinks_of(head) : nullptr,
          .path = trees_[slot]};
}

void BatchAttention::make_view(size_t i, unsigned worker) {
  const size_t slot = i / numbers_->kv_heads;
  if (first_row_[slot] == first_row_[slot + 1])
    return;  // none of the slot's tokens are in the range
  step_.view(query_of(i), workspace_.scratch[worker], views_[i]);
}

uint32_t BatchAttention::first_apart(uint32_t slot) const {
  const auto tokens = static_cast<uint32_t>(slots_[slot].tokens.size());
  return tokens - std::min(tokens, apart_);
}

bool BatchAttention::gives_probs() const {
  return facets_.observer != nullptr && apart_ != kv::Observer::kQueriesOnly;
}

// Adds the tasks of one view in order, so the sum does not depend on which thread computed which
// task.
void BatchAttention::observe_all() {
  if (!gives_probs()) {
    return workspace_.pool.parallel_for(views_.size(), 1, [&](size_t begin, size_t end, unsigned) {
      for (size_t view = begin; view < end; ++view) {
        const size_t slot = view / numbers_->kv_heads;
        if (first_row_[slot] == first_row_[slot + 1]) continue;  // has no view
        facets_.observer->observe(query_of(view), views_[view], {});
      }
    });
  }
  std::vector<size_t> first(views_.size() + 1, plan_->tasks.size());
  for (size_t i = plan_->tasks.size(); i-- > 0;) first[plan_->tasks[i].view] = i;
  workspace_.pool.parallel_for(views_.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t view = begin; view < end; ++view) {
      std::vector<float>& sum = task_probs_[first[view]];
      for (size_t i = first[view] + 1; i < first[view + 1]; ++i) {
        const std::vector<float>& more = task_probs_[i];
        if (apart_ > 0)
          sum.insert(sum.end(), more.begin(), more.end());
        else
          kernels_.add(sum.data(), more.data(), sum.size());
      }
      facets_.observer->observe(query_of(view), views_[view], sum);
    }
  });
}

void BatchAttention::finish(const Task& task, kernels::Partial state) {
  float* out = attended_.out + size_t{task.row} * numbers_->out_floats() +
               size_t{task.head} * numbers_->group() * numbers_->v_dim;
  kernels_.finish(state, views_[task.view], queries(task), out, numbers_->out_floats());
  const uint32_t block = numbers_->hadamard_blocks(hadamard_).v;
  if (block == 0) return;
  for (uint32_t t = 0; t < task.tokens; ++t)
    kernels_.hadamard(out + size_t{t} * numbers_->out_floats(),
                      size_t{numbers_->group()} * numbers_->v_dim, block);
}

void BatchAttention::run_task(size_t i, unsigned worker) {
  const Task& task = plan_->tasks[i];
  const kernels::View& view = views_[task.view];
  kernels::Queries queries = this->queries(task);
  queries.then = view_after(i);
  if (queries.then != nullptr && numbers_->window != 0)
    queries.then_from = kernels::first_seen(this->queries(plan_->tasks[i + 1]));
  const uint32_t n = queries_of(task), chunks = kernels::chunk_count(view, queries);
  float* memory = worker_partials_ + worker * 2 * partial_floats(plan_->most_queries);
  const kernels::Partial state = partial_at(memory, n);
  const kernels::Partial next = partial_at(memory + partial_floats(n), n);
  const uint32_t end = task.first + task.tokens;
  const uint32_t apart = apart_ > 0 ? std::clamp(first_apart(task.slot), task.first, end) : 0;
  const bool observed = gives_probs() && apart < end;
  if (facets_.observer != nullptr) task_probs_[i].clear();
  TaskProbs* const probs = observed ? &worker_probs_[worker] : nullptr;
  if (probs != nullptr) probs->start(chunks, n);
  for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
    const kernels::Partial part = chunk == 0 ? state : next;
    attend_chunk(task, queries, chunk, part, probs ? probs->of(chunk) : nullptr);
    if (probs != nullptr) probs->keep_max(chunk, part.max);
    if (chunk > 0) kernels_.merge(state, next, n, numbers_->v_dim);
  }
  if (probs != nullptr) {
    const size_t rows = rows_of(view);
    std::vector<float>& sums = task_probs_[i];
    sums.assign(apart_ > 0 ? (end - apart) * rows : rows, 0);
    if (apart_ == 0) probs->add_to(view, queries, state, sums);
    for (uint32_t token = apart; apart_ > 0 && token < end; ++token)
      probs->add_token(view, queries, state, token,
                       std::span(sums).subspan((token - apart) * rows, rows));
  }
  finish(task, state);
}

void BatchAttention::run_library() {
  std::vector<BucketSlot> slots(paths_.size());
  for (size_t s = 0; s < slots.size(); ++s)
    slots[s] = {.views = std::span(views_).subspan(s * numbers_->kv_heads, numbers_->kv_heads),
                .tokens = first_row_[s + 1] - first_row_[s],
                .q = q_of(first_row_[s], 0),
                .out = attended_.out + size_t{first_row_[s]} * numbers_->out_floats(),
                .visible = trees_[s],
                .position = slots_[s].past};
  attend_buckets(*numbers_, slots, *workspace_.library, workspace_);
}

uint32_t BatchAttention::most_chunks() const {
  uint32_t most = 0;
  for (const Task& task : plan_->tasks)
    most = std::max(most, kernels::chunk_count(views_[task.view], queries(task)));
  return most;
}

// For few tasks with long contexts: the workers share the chunks of a task and merge them
// afterwards.
void BatchAttention::run_by_chunk() {
  struct Piece {
    uint32_t task, chunk;
    size_t offset;
  };
  std::vector<Piece> pieces;
  size_t floats = 0;
  for (uint32_t t = 0; t < plan_->tasks.size(); ++t) {
    const uint32_t chunks =
        kernels::chunk_count(views_[plan_->tasks[t].view], queries(plan_->tasks[t]));
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      pieces.push_back({t, chunk, floats});
      floats += partial_floats(queries_of(plan_->tasks[t]));
    }
  }
  float* memory = workspace_.floats(Workspace::kPartials, floats);
  workspace_.pool.parallel_for(pieces.size(), 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      const Task& task = plan_->tasks[pieces[i].task];
      attend_chunk(task, queries(task), pieces[i].chunk,
                   partial_at(memory + pieces[i].offset, queries_of(task)), nullptr);
    }
  });
  for (size_t i = 0; i < pieces.size();) {
    size_t next = i + 1;
    while (next < pieces.size() && pieces[next].task == pieces[i].task) ++next;
    merge_chunks(plan_->tasks[pieces[i].task], memory + pieces[i].offset,
                 static_cast<uint32_t>(next - i));
    i = next;
  }
}

}  // namespace kvick::model
