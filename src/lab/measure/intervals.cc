#include "lab/measure/intervals.h"

#include "plan/forecast/attention_block.h"

namespace kvick::lab {

IntervalProbe::IntervalProbe(Store store, base::ThreadPool& pool, const kernels::Table& kernels)
    : store_(std::move(store)), pool_(pool), kernels_(kernels) {}

base::Result<Interval> IntervalProbe::memory(uint32_t token) {
  return interval(&State::allocated_bytes, token);
}

base::Result<Interval> IntervalProbe::bucket(uint32_t token) {
  return interval(&State::bucket_rows, token);
}

// Finds the first and then the last token of the same state by bisection.
base::Result<Interval> IntervalProbe::interval(uint64_t State::*field, uint32_t token) {
  KVICK_TRY(const State here, state(token));
  Interval found = {.first = token, .last = token};
  for (uint32_t low = 1; low < found.first;) {
    const uint32_t middle = low + (found.first - low) / 2;
    KVICK_TRY(const State there, state(middle));
    if (there.*field == here.*field)
      found.first = middle;
    else
      low = middle + 1;
  }
  for (uint32_t high = store_.max_tokens; found.last < high;) {
    const uint32_t middle = high - (high - found.last) / 2;
    KVICK_TRY(const State there, state(middle));
    if (there.*field == here.*field)
      found.last = middle;
    else
      high = middle - 1;
  }
  return found;
}

base::Result<IntervalProbe::State> IntervalProbe::state(uint32_t token) {
  if (const auto known = states_.find(token); known != states_.end()) return known->second;
  KVICK_TRY(const State made, make_state(token));
  return states_[token] = made;
}

// Makes a new store each time, because some stores keep memory of closed sequences.
base::Result<IntervalProbe::State> IntervalProbe::make_state(uint32_t token) const {
  kv::Setup setup;
  setup.shape = {.layers = 1,
                 .kv_heads = 1,
                 .head_dim = store_.head_dim,
                 .max_tokens = store_.max_tokens,
                 .k_type = kernels::DType::kF32,
                 .v_type = kernels::DType::kF32};
  setup.compute.store_row = kernels_.store_row;
  KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(store_.spec, setup));
  model::Config config;
  config.layers.push_back(model::LayerConfig::attention(1, 1, store_.head_dim));
  model::Workspace workspace(pool_, kernels_);
  plan::AttentionBlock block(config, *store, workspace);
  const kv::SeqId seq = store->open({}).seq;
  const kv::Slot slot = {.seq = seq, .fresh = 1, .tokens = {}};
  if (auto filled = block.fill({&seq, 1}, token - 1); !filled.ok())
    return base::fail("{}: {}", store_.spec.name, filled.error().what);
  auto step = store->begin({.slots = {&slot, 1}});
  if (!step.ok()) return base::fail("{}: {}", store_.spec.name, step.error().what);
  const std::vector<float> row(store_.head_dim);
  (*step)->write(0, row.data(), row.data());
  base::Arena scratch;
  kernels::View view;
  (*step)->view({.q = row.data(), .q_stride = store_.head_dim}, scratch, view);
  State state = {.bucket_rows = view.fresh.bucket.rows};
  (*step)->commit(kv::Kept::all({.slots = {&slot, 1}}));
  state.allocated_bytes = store->usage().allocated_bytes;
  return state;
}

}  // namespace kvick::lab
