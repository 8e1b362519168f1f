#include "plan/forecast/attention_block.h"

#include <algorithm>
#include <random>

#include "model/attend/attend.h"

namespace kvick::plan {

AttentionBlock::AttentionBlock(const model::Config& config, kv::Store& store,
                               model::Workspace& workspace, base::Clock clock)
    : config_(config), store_(store), workspace_(workspace), clock_(clock) {}

double AttentionBlock::compiled_s() const {
  return workspace_.library != nullptr ? workspace_.library->compiled().seconds : 0;
}

AttentionBlock::Prepared AttentionBlock::prepare(std::span<const kv::SeqId> seqs, uint32_t tokens) {
  const size_t rows = seqs.size() * tokens;
  size_t most = 0;
  for (const model::LayerConfig& layer : config_.layers)
    most = std::max<size_t>(most, std::max(layer.q_floats(), layer.out_floats()));
  if (values_.size() < rows * most) {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> value(-1, 1);
    values_.resize(rows * most);
    for (float& x : values_) x = value(random);
    out_.resize(values_.size());
  }
  tokens_.resize(tokens);
  slots_ = static_cast<uint32_t>(seqs.size());
  Prepared prepared;
  for (const kv::SeqId seq : seqs)
    prepared.slots.push_back({.seq = seq,
                              .past = store_.length(seq),
                              .tokens = tokens_,
                              .parents = {},
                              .reusable = false});
  prepared.kv_slots = model::kv_slots({.slots = prepared.slots});
  return prepared;
}

void AttentionBlock::write(uint32_t layer, kv::Step& step) const {
  const model::LayerConfig& numbers = config_.layers[layer];
  if (numbers.kind == model::LayerConfig::Kind::kState) return write_states(layer, step);
  if (numbers.attends() && numbers.owns_rows()) step.write(layer, values_.data(), values_.data());
}

// Zeros are never NaN or subnormal, which could slow down a layer.
void AttentionBlock::write_states(uint32_t layer, kv::Step& step) const {
  kv::StateKeeper& keeper = *step.facets().states;
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    const std::span<std::byte> state =
        keeper.state_after(layer, slot, static_cast<uint32_t>(tokens_.size()) - 1);
    std::ranges::fill(state, std::byte{0});
  }
  step.write(layer, nullptr, nullptr);
}

base::Status<kv::Shortage> AttentionBlock::fill(std::span<const kv::SeqId> seqs, uint32_t tokens) {
  // Adds this many rows at a time: the values of all rows might not fit into memory.
  constexpr size_t kRows = 4096;
  const auto at_once = static_cast<uint32_t>(std::max<size_t>(1, kRows / seqs.size()));
  for (uint32_t done = 0; done < tokens; done += at_once) {
    const Prepared prepared = prepare(seqs, std::min(at_once, tokens - done));
    KVICK_TRY(const std::unique_ptr<kv::Step> step, store_.begin({.slots = prepared.kv_slots}));
    for (uint32_t layer = 0; layer < config_.layer_count(); ++layer) write(layer, *step);
    step->commit(kv::Kept::all({.slots = prepared.kv_slots}));
  }
  return base::Done{};
}

base::Status<kv::Shortage> AttentionBlock::step(std::span<const kv::SeqId> seqs, uint32_t tokens,
                                                BlockSeconds& seconds, bool keep) {
  const Prepared prepared = prepare(seqs, tokens);
  const std::span<const kv::Slot> kv_slots = prepared.kv_slots;
  const model::Batch batch = {.slots = prepared.slots};
  double then = clock_();
  const auto lap = [&](double& to) {
    const double now = clock_();
    to += now - then;
    then = now;
  };
  KVICK_TRY(std::unique_ptr<kv::Step> step, store_.begin({.slots = kv_slots}));
  lap(seconds.begin);
  model::BatchAttention attention(config_, batch, *step, workspace_);
  for (uint32_t layer = 0; layer < config_.layer_count(); ++layer) {
    write(layer, *step);
    lap(seconds.write);
    if (!config_.layers[layer].attends()) continue;
    const double compiled = compiled_s();
    attention.run(layer, {.q = values_.data(), .out = out_.data()});
    lap(seconds.attend);
    seconds.attend -= compiled_s() - compiled;
  }
  if (keep) step->commit(kv::Kept::all({.slots = kv_slots}));
  step.reset();
  lap(seconds.commit);
  return base::Done{};
}

}  // namespace kvick::plan
