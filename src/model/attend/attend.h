#pragma once
// Attention of a whole batch, divided among the threads by slot, KV head, tokens and chunk of rows.

#include <span>
#include <vector>

#include "kernels/attention/attention.h"
#include "model/attend/attend_probs.h"
#include "model/core/config.h"
#include "model/core/model.h"

namespace kvick::model {

// A layer's queries, and where its output is written.
struct Attended {
  const float* q = nullptr;  // [tokens][heads][k_dim]
  const float* sinks =
      nullptr;           // [heads], an additional logit without a value for each head; null: none
  float* out = nullptr;  // [tokens][heads][v_dim]
  // For attend_text only. slopes: [heads], how much a logit decreases per token between query and
  // key; null: none. k, v: the step's keys and values, [tokens][kv_heads][k_dim or v_dim].
  const float* slopes = nullptr;
  const float* k = nullptr;
  const float* v = nullptr;
};

// Lives for one forward pass. Layers with equal numbers of heads share one plan of tasks.
class BatchAttention {
 public:
  // config, batch, step and workspace must outlive this object.
  BatchAttention(const Config& config, const Batch& batch, kv::Step& step, Workspace& workspace)
      : BatchAttention(config, batch, {0, batch.tokens()}, step, workspace) {}
  // Attention for a range of the batch's tokens, whose rows are written piece by piece
  // (kv::PieceWriter). A draft tree must lie wholly inside the range or wholly outside.
  BatchAttention(const Config& config, const Batch& batch, TokenRange range, kv::Step& step,
                 Workspace& workspace);

  // Computes softmax(scale q k^T) v over the rows of a layer that the step shows, for all slots and
  // heads. The layer's LayerConfig has the scale, window, softcap, and the layer that owns the
  // rows.
  void run(uint32_t layer, const Attended& attended);
  // Does the same for stores that keep slots instead of rows (kv::SlotReader) and read them
  // themselves.
  void read(uint32_t layer, const Attended& attended);

 private:
  struct Task {
    uint32_t view = 0;  // slot * kv_heads + head
    uint32_t slot = 0, head = 0;
    uint32_t first = 0, tokens = 0;  // index in the slot, and count
    uint32_t row = 0;                // index of the first token's row in the range
    Role role = Role::kAnswer;
  };
  // For a slot whose tokens form a draft tree: for each token the fresh rows on its path, the
  // token's own row included, in ascending order.
  struct Paths {
    std::vector<uint32_t> rows;
    std::vector<std::span<const uint32_t>> of;
  };
  // The tasks of all layers with these numbers of heads.
  struct Plan {
    uint32_t heads = 0, kv_heads = 0;
    uint32_t most_queries = 0;  // the largest number of query rows of a task
    std::vector<Task> tasks;
  };
  static Paths paths_of(const Slot& slot);

  Plan make_plan(const LayerConfig& layer) const;
  void enter(uint32_t layer, const Attended& attended);
  static uint32_t tile_tokens(Role role, uint32_t tokens, uint32_t group);
  uint32_t queries_of(const Task& task) const { return task.tokens * numbers_->group(); }
  const float* q_of(uint32_t row, uint32_t head) const;
  const float* sinks_of(uint32_t head) const;
  // Returns the view that the task after task i reads, or null if it is the same view. Prefetching
  // its keys makes decoding 1.12 times as fast with 16 and 32 sequences of SmolLM2's shape at 128
  // tokens.
  const kernels::View* view_after(size_t i) const;
  kernels::Queries queries(const Task& task) const;
  uint32_t most_chunks() const;
  // Size of one Partial, in floats, for this many query rows.
  size_t partial_floats(uint32_t queries) const { return size_t{queries} * (2 + numbers_->v_dim); }

  static kernels::Partial partial_at(float* memory, uint32_t queries) {
    return {.max = memory, .sum = memory + queries, .acc = memory + size_t{2} * queries};
  }
  // Computes the softmax state of a chunk, in the arithmetic of the task's role.
  void attend_chunk(const Task& task, const kernels::Queries& queries, uint32_t chunk,
                    kernels::Partial out, float* probs) const;
  kv::Query query_of(size_t view) const;
  void make_view(size_t i, unsigned worker);
  void run_task(size_t i, unsigned worker);
  void run_by_chunk();
  // Whether run_choosing() computes the current layer: few views, which take work, a task each.
  bool chooses_few() const;
  void run_choosing();
  // Merges the results of a task's chunks, which lie one after the other, and writes its output.
  void merge_chunks(const Task& task, float* memory, uint32_t chunks);
  // Returns the first of a slot's tokens that kv::Observer::apart names.
  uint32_t first_apart(uint32_t slot) const;
  bool gives_probs() const;  // whether an observer wants the current layer's probabilities
  void observe_all();
  void run_library();
  void finish(const Task& task, kernels::Partial state);

  const Config& config_;
  kv::Step& step_;
  Workspace& workspace_;
  const kernels::Table& kernels_;
  std::span<const Slot> slots_;
  const kv::Hadamard hadamard_;  // transform of the store's rows, and so of the queries passed in
  std::vector<Plan> plans_;
  std::vector<Paths> paths_;  // per slot
  std::vector<const std::span<const uint32_t>*>
      trees_;                        // per slot its tokens' paths; null: a chain
  std::vector<uint32_t> skipped_;    // per slot, its tokens before the range
  std::vector<uint32_t> first_row_;  // per slot, and one past the last
  std::vector<kernels::View> views_;
  kv::StepFacets facets_;
  // If an observer wants probabilities: scratch per worker, and per task the sums for the rows of
  // its view, one after the other for each token that is observed apart.
  std::vector<TaskProbs> worker_probs_;
  std::vector<std::vector<float>> task_probs_;
  // Of the current layer:
  const LayerConfig* numbers_ = nullptr;
  const Plan* plan_ = nullptr;
  uint32_t rows_layer_ = 0;  // the layer whose keys and values are read
  uint32_t apart_ = 0;       // kv::Observer::apart of these rows
  Attended attended_;
  float* worker_partials_ = nullptr;  // two Partials of the largest task per worker
};

}  // namespace kvick::model
