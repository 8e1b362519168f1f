#pragma once
// One step of a model over a store: begin, forward, commit. All that computes tokens does it
// through this class, so that a model spread over several processes is a change here and in no
// caller (ADR 30). Another process can do the same step, since nothing else passes between a caller
// and the model: the batch, which logits are wanted, and then the rows to keep, or that the step is
// dropped.

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

  // The model outlives it.
  Executor(const Model& model, Workspace workspace)
      : model_(&model), workspace_(std::move(workspace)) {}

  // Room for all rows of the batch, or the Shortage of kv::Store::begin and no change. Until the
  // step ends the store lives, what the batch points to stays, and the executor is not moved.
  base::Result<Step, kv::Shortage> begin(kv::Store& store, const Batch& batch);
  // begin and forward, for callers that look at the results before they say which rows to keep.
  // states: as Step::want_states.
  base::Result<Step, kv::Shortage> run(kv::Store& store, const Batch& batch,
                                       std::span<const uint32_t> wanted,
                                       std::vector<uint32_t> states = {});
  // run, then keeps all rows. Also a Shortage if a sequence was lost meanwhile (kv::Health); then
  // no row is kept.
  base::Status<kv::Shortage> advance(kv::Store& store, const Batch& batch,
                                     std::span<const uint32_t> wanted,
                                     std::vector<uint32_t> states = {});

  // Logits of the last forward, [wanted][Model::outputs()], valid until the next one begins. The
  // caller may overwrite them.
  std::span<float> logits() { return logits_; }
  std::span<const float> logits() const { return logits_; }
  // The states that Step::want_states asked for: [tokens][Config::dim].
  std::span<const float> states() const { return states_; }

  const Model& model() const { return *model_; }
  // For attention that is measured without the model; not during a forward.
  Workspace& workspace() { return workspace_; }

 private:
  States room_for(std::span<const uint32_t> tokens);

  const Model* model_;
  Workspace workspace_;
  base::Buffer memory_, state_memory_;  // grow to the largest step seen and stay
  std::span<float> logits_, states_;
};

// A step that has begun. Destroyed without commit: nothing happened.
class Executor::Step {
 public:
  // Call before forward: the tokens (States::tokens) whose states Executor::states will hold. Only
  // on rank 0, and only if Model::has_states().
  void want_states(std::vector<uint32_t> tokens) { states_ = std::move(tokens); }
  // Runs the batch through all layers; call once. Executor::logits are then those of the tokens
  // `wanted` (indices in batch order, ascending). An exception drops the step.
  void forward(std::span<const uint32_t> wanted) { forward(wanted, rows()); }
  // The same, but the layers see `spy`, a step that passes all calls on to rows() and looks at what
  // they carry.
  void forward(std::span<const uint32_t> wanted, kv::Step& spy);
  // The store's own step. base::Bug once this one has ended.
  kv::Step& rows();
  // The argument of commit that keeps every row of the batch.
  kv::Kept all() const { return kv::Kept::all({.slots = slots_}); }
  // Keeps those rows and ends the step. Throws what kv::Step::commit does.
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
  std::unique_ptr<kv::Step> rows_;  // null: ended
};

}  // namespace kvick::model
