#pragma once
// Attention of a whole batch: divides (slot, KV head, tokens, chunk) among the threads.

#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "model/attend/attend_probs.h"
#include "model/core/config.h"
#include "model/core/model.h"

namespace kvick::model {

// A layer's queries, and where its output goes.
struct Attended {
  const float* q = nullptr;      // [tokens][heads][k_dim]
  const float* sinks = nullptr;  // [heads], one more logit each without a value; null: none
  float* out = nullptr;          // [tokens][heads][v_dim]
  // For attend_text only. slopes: [heads], what a logit loses per token between query and key, or
  // null. k, v: the step's keys and values, [tokens][kv_heads][k_dim or v_dim].
  const float* slopes = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
};

// One per forward. Layers with equal numbers of heads share one plan, which is made once.
class BatchAttention {
 public:
  // All four outlive it.
  BatchAttention(const Config& config, const Batch& batch, kv::Step& step, Workspace& workspace)
      : BatchAttention(config, batch, {0, batch.tokens()}, step, workspace) {}
  // For a range of the batch's tokens, whose rows are written piece by piece (kv::PieceWriter). A
  // draft tree lies wholly inside the range or wholly outside.
  BatchAttention(const Config& config, const Batch& batch, TokenRange range, kv::Step& step,
                 Workspace& workspace);

  // softmax(scale q k^T) v over the rows that the step shows of a layer, for all slots and heads.
  // Scale, window, softcap and the layer that has the rows are in the layer's LayerConfig.
  void run(uint32_t layer, const Attended& attended);
  // The same where the store keeps slots (kv::SlotReader), which it reads itself.
  void read(uint32_t layer, const Attended& attended);

 private:
  struct Task {
    uint32_t view = 0;  // slot * kv_heads + head
    uint32_t slot = 0, head = 0;
    uint32_t first = 0, tokens = 0;  // within the slot
    uint32_t row = 0;                // of the first token, in the batch
    Role role = Role::kAnswer;
  };
  // For a slot whose tokens form a draft tree: for each token the fresh rows on its path, itself
  // included, ascending.
  struct Paths {
    std::vector<uint32_t> rows;
    std::vector<std::span<const uint32_t>> of;
  };
  // The tasks of all layers with these heads.
  struct Plan {
    uint32_t heads = 0, kv_heads = 0;
    uint32_t most_queries = 0;  // of a task
    std::vector<Task> tasks;
  };
  static Paths paths_of(const Slot& slot);

  Plan make_plan(const LayerConfig& layer) const;
  void enter(uint32_t layer, const Attended& attended);
  static uint32_t tile_tokens(Role role, uint32_t tokens, uint32_t group);
  uint32_t queries_of(const Task& task) const { return task.tokens * numbers_->group(); }
  const float* q_of(uint32_t row, uint32_t head) const;
  const float* sinks_of(uint32_t head) const;
  // The view read after task i's, if it is another one, to prefetch its keys: 16 and 32 sequences
  // of SmolLM2's shape at 128 tokens decode 1.12 times as fast.
  const kernels::View* view_after(size_t i) const;
  kernels::Queries queries(const Task& task) const;
  uint32_t most_chunks() const;
  // Floats of one Partial of a whole tile.
  size_t partial_floats(uint32_t queries) const { return size_t{queries} * (2 + numbers_->v_dim); }

  // The softmax state of a chunk, in the arithmetic of the task's role.
  void attend_chunk(const Task& task, const kernels::Queries& queries, uint32_t chunk,
                    kernels::Partial out, float* probs) const;
  kv::Query query_of(size_t view) const;
  void make_view(size_t i, unsigned worker);
  void run_task(size_t i, unsigned worker);
  void run_by_chunk();
  void observe_all();
  void run_library();
  void finish(const Task& task, kernels::Partial state);

  const Config& config_;
  kv::Step& step_;
  Workspace& workspace_;
  const kernels::Table& kernels_;
  std::span<const Slot> slots_;
  const kv::Hadamard hadamard_;  // of the rows, and so of the queries that come
  std::vector<Plan> plans_;
  std::vector<Paths> paths_;                             // per slot
  std::vector<const std::span<const uint32_t>*> trees_;  // per slot its paths, null: a chain
  std::vector<uint32_t> skipped_;                        // per slot its tokens before the range
  std::vector<uint32_t> first_row_;                      // per slot, and behind the last
  std::vector<kernels::View> views_;
  kv::StepFacets facets_;
  // If probabilities are wanted: per worker, and per task those of the rows of its view.
  std::vector<TaskProbs> worker_probs_;
  std::vector<std::vector<float>> task_probs_;
  // Of the layer that is computed:
  const LayerConfig* numbers_ = nullptr;
  const Plan* plan_ = nullptr;
  uint32_t rows_layer_ = 0;  // the layer whose keys and values are read
  Attended attended_;
  float* worker_partials_ = nullptr;  // per worker, two Partials of a whole tile
};

}  // namespace kvick::model
