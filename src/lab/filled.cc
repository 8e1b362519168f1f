#include "lab/filled.h"

#include <algorithm>

#include "base/clock.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kChunk = 256;  // tokens of a step that fills the cache

}  // namespace

Filled::Filled(engine::Engine& engine, std::unique_ptr<kv::Store> store, uint32_t batch)
    : engine_(engine),
      store_(std::move(store)),
      workspace_(engine.make_workspace()),
      block_(engine.model().config(), *store_, workspace_),
      tokens_(batch, 1),
      logits_(size_t{batch} * engine.model().config().vocab) {
  for (uint32_t i = 0; i < batch; ++i) {
    seqs_.push_back(store_->open({}).seq);
    wanted_.push_back(i);
  }
}

base::Status<kv::Shortage> Filled::fill(uint32_t tokens) {
  for (uint32_t at = 0; at < tokens; at += kChunk)
    KVICK_TRY_VOID(block_.fill(seqs_, std::min(kChunk, tokens - at)));
  return base::Done{};
}

base::Result<double, kv::Shortage> Filled::attend() {
  plan::BlockSeconds seconds;
  KVICK_TRY_VOID(block_.step(seqs_, 1, seconds));
  return seconds.attend;
}

base::Result<double, kv::Shortage> Filled::step() {
  std::vector<model::Slot> slots;
  for (uint32_t i = 0; i < seqs_.size(); ++i)
    slots.push_back({.seq = seqs_[i],
                     .past = store_->length(seqs_[i]),
                     .tokens = {&tokens_[i], 1},
                     .parents = {}});
  const model::Batch batch = {.slots = slots};
  std::vector<kv::Slot> kv_slots = model::kv_slots(batch);
  for (kv::Slot& slot : kv_slots) slot.tokens = {};  // nobody will ask for these again
  const double start = base::steady_seconds();
  KVICK_TRY(std::unique_ptr<kv::Step> step, store_->begin({.slots = kv_slots}));
  engine_.model().forward(batch, *step, workspace_, wanted_, logits_.data());
  step->commit(kv::Kept::all({.slots = kv_slots}));
  return base::steady_seconds() - start;
}

}  // namespace kvick::lab
