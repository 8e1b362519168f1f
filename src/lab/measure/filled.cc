#include "lab/measure/filled.h"

#include <algorithm>

#include "base/clock.h"
#include "kv/strategy/facet_calls.h"
#include "lab/measure/attention_clock.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kChunk = 256;  // tokens per step that fills the cache

// Lets an observer see the inputs of linear layers while it lives.
class Observed {
 public:
  Observed(model::Workspace& workspace, model::InputObserver& observer) : workspace_(workspace) {
    workspace_.observer = &observer;
  }
  ~Observed() { workspace_.observer = nullptr; }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  model::Workspace& workspace_;
};

}  // namespace

Filled::Filled(engine::Engine& engine, std::unique_ptr<kv::Store> store, uint32_t batch,
               std::span<const engine::Token> text)
    : store_(std::move(store)),
      executor_(engine.make_executor()),
      block_(engine.model().config(), *store_, executor_.workspace()),
      text_(text) {
  for (uint32_t i = 0; i < batch; ++i) seqs_.push_back(store_->open({}).seq);
}

base::Status<kv::Shortage> Filled::fill(uint32_t tokens) {
  for (uint32_t at = 0; at < tokens; at += kChunk) {
    const uint32_t chunk = std::min(kChunk, tokens - at);
    if (text_.empty())
      KVICK_TRY_VOID(block_.fill(seqs_, chunk));
    else
      KVICK_TRY_VOID(read(chunk));
  }
  return base::Done{};
}

base::Result<double, kv::Shortage> Filled::attend() {
  plan::BlockSeconds seconds;
  KVICK_TRY_VOID(block_.step(seqs_, 1, seconds));
  return seconds.attend;
}

base::Result<double, kv::Shortage> Filled::step() { return read(1); }

base::Result<double, kv::Shortage> Filled::attend_in_step() {
  prepare(1);
  KVICK_TRY(model::Executor::Step step, executor_.begin(*store_, {.slots = slots_}));
  AttentionClock clock(step.rows());
  {
    const Observed observed(executor_.workspace(), clock);
    step.forward(last_, clock);
  }
  for (const kv::SeqId seq : seqs_)
    if (const std::string why = kv::failure(*store_, seq); !why.empty())
      return kv::Shortage{.needed_bytes = 1, .what = why};
  step.commit(step.all());
  return clock.seconds();
}

void Filled::prepare(uint32_t tokens) {
  tokens_.assign(seqs_.size() * tokens, 1);
  slots_.clear();
  last_.clear();
  for (size_t i = 0; i < seqs_.size(); ++i) {
    const std::span<model::Token> mine(&tokens_[i * tokens], tokens);
    const uint32_t past = store_->length(seqs_[i]);
    for (uint32_t t = 0; t < tokens && !text_.empty(); ++t)
      mine[t] = text_[(text_.size() / seqs_.size() * i + past + t) % text_.size()];
    slots_.push_back(
        {.seq = seqs_[i], .past = past, .tokens = mine, .parents = {}, .reusable = false});
    last_.push_back(static_cast<uint32_t>(i + 1) * tokens - 1);
  }
}

base::Result<double, kv::Shortage> Filled::read(uint32_t tokens) {
  prepare(tokens);
  const double start = base::steady_seconds();
  KVICK_TRY_VOID(executor_.advance(*store_, {.slots = slots_}, last_));
  return base::steady_seconds() - start;
}

}  // namespace kvick::lab
