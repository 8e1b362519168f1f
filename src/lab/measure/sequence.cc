#include "lab/measure/sequence.h"

namespace kvick::lab {

OneSequence::OneSequence(engine::Engine& engine, std::unique_ptr<kv::Store> store)
    : store_(std::move(store)), executor_(engine.make_executor()), seq_(store_->open({}).seq) {}

base::Result<OneSequence> OneSequence::open(engine::Engine& engine,
                                            const engine::KvOptions& options) {
  KVICK_TRY(std::unique_ptr<kv::Store> store, engine.make_store(options));
  return OneSequence(engine, std::move(store));
}

base::Status<> OneSequence::read(std::span<const engine::Token> tokens) {
  const model::Slot slot = {
      .seq = seq_, .past = length(), .tokens = tokens, .parents = {}, .reusable = false};
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  const auto done = executor_.advance(*store_, {.slots = {&slot, 1}}, {&last, 1});
  if (!done.ok()) return base::fail("no room in the cache: {}", done.error().what);
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
