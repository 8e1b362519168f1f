#include "lab/measure/sequence.h"

namespace kvick::lab {

OneSequence::OneSequence(engine::Engine& engine, std::unique_ptr<kv::Store> store)
    : engine_(&engine),
      store_(std::move(store)),
      workspace_(engine.make_workspace()),
      seq_(store_->open({}).seq),
      logits_(engine.model().config().vocab) {}

base::Result<OneSequence> OneSequence::open(engine::Engine& engine,
                                            const engine::KvOptions& options) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(options));
  return OneSequence(engine, std::move(store));
}

base::Status<> OneSequence::read(std::span<const engine::Token> tokens) {
  const model::Slot slot = {.seq = seq_, .past = length(), .tokens = tokens, .parents = {}};
  const model::Batch batch = {.slots = {&slot, 1}};
  std::vector<kv::Slot> slots = model::kv_slots(batch);
  slots[0].tokens = {};  // nobody will ask for these again
  auto step = store_->begin({.slots = slots});
  if (!step.ok()) return base::fail("no room in the cache: {}", step.error().what);
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  engine_->model().forward(batch, **step, workspace_, {&last, 1}, logits_.data());
  if (const std::string why = store_->failure(seq_); !why.empty())
    return base::fail("the sequence's rows are lost: {}", why);
  (*step)->commit(kv::Kept::all({.slots = slots}));
  return base::Done{};
}

base::Status<> OneSequence::read_in_steps(std::span<const engine::Token> tokens, size_t chunk) {
  const size_t steps = (tokens.size() + chunk - 1) / chunk;
  for (size_t i = 0; i < steps; ++i) {
    const size_t begin = tokens.size() * i / steps, end = tokens.size() * (i + 1) / steps;
    KVICK_TRY_VOID(read(tokens.subspan(begin, end - begin)));
  }
  return base::Done{};
}

}  // namespace kvick::lab
