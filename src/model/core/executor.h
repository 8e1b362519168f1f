#pragma once
// One step of a model over a store: begin, forward, commit. All code that computes tokens uses this
// class, so that running a model on several processes changes this class and no caller (ADR 30).
// Another process can repeat the step, because only three things pass between a caller and the
// model: the batch, the list of wanted logits, and then the rows to keep or the fact that the step
// is dropped.

#include <memory>
#include <span>
#include <vector>

#include "base/memory.h"
#include "kv/contract/kv.h"
#include "model/core/model.h"
#include "model/core/workspace.h"

namespace kvick::model {

class Executor {
 public:
  class Step;

  // The model must outlive the executor.
  Executor(const Model& model, Workspace workspace)
      : model_(&model), workspace_(std::move(workspace)) {}

  // Reserves memory for all rows of the batch, or returns the Shortage of kv::Store::begin and
  // changes nothing. Until the step ends, the store and the memory that the batch points to must
  // stay valid, and the executor must not be moved.
  base::Result<Step, kv::Shortage> begin(kv::Store& store, const Batch& batch);
  // Does begin and forward, for callers that read the results before they decide which rows to
  // keep. states: as for Step::want_states.
  base::Result<Step, kv::Shortage> run(kv::Store& store, const Batch& batch,
                                       std::span<const uint32_t> wanted,
                                       std::vector<uint32_t> states = {});
  // Does run, then keeps all rows. It also returns a Shortage, and keeps no row, if a sequence was
  // lost during the step (kv::Health).
  base::Status<kv::Shortage> advance(kv::Store& store, const Batch& batch,
                                     std::span<const uint32_t> wanted,
                                     std::vector<uint32_t> states = {});

  // Logits of the last forward, [wanted][Model::outputs()], valid until the next forward begins.
  // The caller may overwrite them.
  std::span<float> logits() { return logits_; }
  std::span<const float> logits() const { return logits_; }
  // The states that Step::want_states requested: [tokens][Config::dim].
  std::span<const float> states() const { return states_; }

  const Model& model() const { return *model_; }
  // For measuring attention without the model. Do not use it during a forward.
  Workspace& workspace() { return workspace_; }

 private:
  States room_for(std::span<const uint32_t> tokens);

  const Model* model_;
  Workspace workspace_;
  base::Buffer memory_, state_memory_;  // grow to the largest step so far and are kept
  std::span<float> logits_, states_;
};

// A step that has begun. Destroying it without a commit drops the step without a trace.
class Executor::Step {
 public:
  // Sets the tokens (States::tokens) whose states Executor::states will hold. Call it before
  // forward, only on rank 0, and only if Model::has_states().
  void want_states(std::vector<uint32_t> tokens) { states_ = std::move(tokens); }
  // Runs the batch through all layers; call once. Executor::logits then holds the logits of the
  // tokens `wanted` (indices in batch order, ascending). An exception drops the step.
  void forward(std::span<const uint32_t> wanted) { forward(wanted, rows()); }
  // Does the same, but the layers see `spy`: a step that forwards all calls to rows() and inspects
  // their arguments.
  void forward(std::span<const uint32_t> wanted, kv::Step& spy);
  // Returns the store's own step. base::Bug once this step has ended.
  kv::Step& rows();
  // Returns the argument of commit that keeps every row of the batch.
  kv::Kept all() const { return kv::Kept::all({.slots = slots_}); }
  // Keeps the rows of `kept` and ends the step. Throws what kv::Step::commit throws.
  void commit(const kv::Kept& kept);

 private:
  friend class Executor;
  Step(Executor& executor, const Batch& batch, std::vector<kv::Slot> slots,
       std::unique_ptr<kv::Step> rows)
      : executor_(&executor), batch_(batch), slots_(std::move(slots)), rows_(std::move(rows)) {}

  Executor* executor_;
  Batch batch_;
  std::vector<uint32_t> states_;    // tokens whose states are wanted
  std::vector<kv::Slot> slots_;     // the batch as the store sees it
  std::unique_ptr<kv::Step> rows_;  // null: the step has ended
};

}  // namespace kvick::model
