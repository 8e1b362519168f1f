#include "model/core/executor.h"

#include <fmt/format.h>

#include "base/check.h"
#include "kv/strategy/facet_calls.h"
#include "model/core/step_message.h"
#include "model/ranks/ranks.h"

namespace kvick::model {
namespace {

void tell_forward(Ranks& ranks, const Batch& batch, std::span<const uint32_t> wanted) {
  MessageWriter message(Order::kForward);
  add_batch(message, batch);
  message.add_list(wanted);
  ranks.tell(message.bytes());
}

}  // namespace

base::Result<Executor::Step, kv::Shortage> Executor::begin(kv::Store& store, const Batch& batch) {
  std::vector<kv::Slot> slots = kv_slots(batch);
  KVICK_TRY(std::unique_ptr<kv::Step> rows, store.begin({.slots = slots}));
  Batch transformed = batch;
  transformed.hadamard = store.shape().hadamard;
  return Step(*this, transformed, std::move(slots), std::move(rows));
}

base::Result<Executor::Step, kv::Shortage> Executor::run(kv::Store& store, const Batch& batch,
                                                         std::span<const uint32_t> wanted,
                                                         std::vector<uint32_t> states) {
  KVICK_TRY(Step step, begin(store, batch));
  step.want_states(std::move(states));
  step.forward(wanted);
  return step;
}

base::Status<kv::Shortage> Executor::advance(kv::Store& store, const Batch& batch,
                                             std::span<const uint32_t> wanted,
                                             std::vector<uint32_t> states) {
  KVICK_TRY(Step step, run(store, batch, wanted, std::move(states)));
  // The same message as Store::begin's, which the sequence's next step would get.
  for (const Slot& slot : batch.slots)
    if (const std::string why = kv::failure(store, slot.seq); !why.empty())
      return kv::Shortage{
          .needed_bytes = 1,
          .what = fmt::format("sequence {}: {}", static_cast<uint32_t>(slot.seq), why)};
  step.commit(step.all());
  return base::Done{};
}

States Executor::room_for(std::span<const uint32_t> tokens) {
  const size_t floats = tokens.size() * model_->config().dim;
  if (state_memory_.size() < floats * sizeof(float))
    state_memory_ = base::Buffer(floats * sizeof(float));
  states_ = {state_memory_.as<float>(), floats};
  return {.tokens = tokens, .floats = states_.data()};
}

void Executor::Step::forward(std::span<const uint32_t> wanted, kv::Step& spy) {
  rows();
  try {
    Executor& by = *executor_;
    const size_t floats = wanted.size() * by.model_->outputs();
    if (by.memory_.size() < floats * sizeof(float))
      by.memory_ = base::Buffer(floats * sizeof(float));
    by.logits_ = {by.memory_.as<float>(), floats};
    const States states = by.room_for(states_);
    Batch batch = batch_;
    if (!states_.empty()) batch.states = &states;
    if (Ranks* const ranks = by.model_->ranks(); ranks != nullptr && ranks->leads())
      tell_forward(*ranks, batch_, wanted);
    by.model_->forward(batch, spy, by.workspace_, wanted, by.logits_.data());
  } catch (...) {
    rows_.reset();
    throw;
  }
}

kv::Step& Executor::Step::rows() {
  KVICK_CHECK(rows_ != nullptr, "a step of {} sequences is used after its end", slots_.size());
  return *rows_;
}

void Executor::Step::commit(const kv::Kept& kept) {
  rows().commit(kept);
  rows_.reset();
}

}  // namespace kvick::model
