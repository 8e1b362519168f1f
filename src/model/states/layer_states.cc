#include "model/states/layer_states.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace kvick::model {
namespace {

constexpr size_t kPieceFloats = 1 << 14;  // converted by one task
constexpr size_t kRoundedFloats = 256;    // rounded at a time, through a buffer

float* floats_of(std::span<std::byte> state) { return reinterpret_cast<float*>(state.data()); }

// Not kernels::to_f32, which calls a function for each element.
void widen(const std::byte* in, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, in + i * sizeof(half), sizeof(half));
    out[i] = std::bit_cast<float>(uint32_t{half} << 16);
  }
}

int32_t parent_of(const Slot& tokens, uint32_t row) {
  return tokens.parents.empty() ? static_cast<int32_t>(row) - 1 : tokens.parents[row];
}

// Whether each token of a slot has a state of its own in the store. Otherwise all tokens will be
// kept, and only the last one has.
bool has_each(kv::StateKeeper& keeper, uint32_t layer, uint32_t slot, const Slot& tokens) {
  return tokens.tokens.size() > 1 && !keeper.state_after(layer, slot, 0).empty();
}

}  // namespace

void StateRow::round(const kernels::Table& kernels, size_t first, size_t count) const {
  std::array<std::byte, kRoundedFloats * sizeof(uint16_t)> halves;
  for (size_t done = 0; done < count; done += kRoundedFloats) {
    const size_t n = std::min(kRoundedFloats, count - done);
    float* const at = after + first + done;
    kernels.store_row(kernels::DType::kBF16, at, n, halves.data());
    widen(halves.data(), n, at);
  }
}

LayerStates::LayerStates(const Pass& pass, uint32_t layer)
    : step_(pass.step),
      workspace_(pass.workspace),
      layer_(layer),
      floats_(pass.config.layers[layer].state.floats()) {
  kv::StateKeeper* const keeper = pass.step.facets().states;
  KVICK_CHECK(keeper != nullptr, "layer {} keeps a state, and the step has none", layer);
  KVICK_CHECK(pass.tokens == pass.batch.tokens(), "{} of {} tokens of a layer with a state",
              pass.tokens, pass.batch.tokens());
  const size_t bytes = keeper->state(layer, 0).size();
  const bool copies = bytes == floats_ * sizeof(uint16_t);
  KVICK_CHECK(copies || bytes == floats_ * sizeof(float), "{} bytes for a state of {} floats",
              bytes, floats_);
  rows_.reserve(pass.tokens);
  if (copies) {
    make_copies(*keeper, pass.batch);
    return;
  }
  for (uint32_t slot = 0; slot < pass.batch.slots.size(); ++slot)
    add_slot(*keeper, slot, pass.batch.slots[slot]);
}

// If all tokens of a slot will be kept, only the last one has its own state; the other tokens'
// states are intermediate and share its memory.
void LayerStates::add_slot(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens) {
  const auto count = static_cast<uint32_t>(tokens.tokens.size());
  const auto* const committed = reinterpret_cast<const float*>(keeper.state(layer_, slot).data());
  float* const last = floats_of(keeper.state_after(layer_, slot, count - 1));
  const size_t first = rows_.size();
  for (uint32_t row = 0; row < count; ++row) {
    const std::span<std::byte> own = keeper.state_after(layer_, slot, row);
    const int32_t parent = parent_of(tokens, row);
    rows_.push_back(
        {.token = static_cast<uint32_t>(rows_.size()),
         .before = parent < 0 ? committed : rows_[first + static_cast<size_t>(parent)].after,
         .after = own.empty() ? last : floats_of(own)});
  }
  first_.push_back(rows_.size());
}

// One copy serves a slot whose tokens will all be kept: it is updated in place.
void LayerStates::add_copies(kv::StateKeeper& keeper, uint32_t slot, const Slot& tokens) {
  const auto count = static_cast<uint32_t>(tokens.tokens.size());
  const bool each = has_each(keeper, layer_, slot, tokens);
  const auto take_copy = [&] { return std::exchange(next_copy_, next_copy_ + floats_); };
  float* const committed = take_copy();
  sources_.push_back({.kept = keeper.state(layer_, slot).data(), .copy = committed});
  const size_t first = rows_.size();
  for (uint32_t row = 0; row < count; ++row) {
    const int32_t parent = parent_of(tokens, row);
    rows_.push_back(
        {.token = static_cast<uint32_t>(rows_.size()),
         .before = parent < 0 ? committed : rows_[first + static_cast<size_t>(parent)].after,
         .after = each ? take_copy() : committed,
         .rounds = each});
    if (each || row + 1 == count)
      targets_.push_back(
          {.copy = rows_.back().after, .kept = keeper.state_after(layer_, slot, row).data()});
  }
  first_.push_back(rows_.size());
}

void LayerStates::make_copies(kv::StateKeeper& keeper, const Batch& batch) {
  size_t copies = 0;
  for (uint32_t slot = 0; slot < batch.slots.size(); ++slot)
    copies +=
        1 +
        (has_each(keeper, layer_, slot, batch.slots[slot]) ? batch.slots[slot].tokens.size() : 0);
  // kHeads: only latent attention uses it too, and not while a block of states runs.
  next_copy_ = workspace_.floats(Workspace::kHeads, copies * floats_);
  for (uint32_t slot = 0; slot < batch.slots.size(); ++slot)
    add_copies(keeper, slot, batch.slots[slot]);
  for_pieces(sources_.size(), [&](size_t state, size_t first, size_t count) {
    const Source& source = sources_[state];
    widen(source.kept + first * sizeof(uint16_t), count, source.copy + first);
  });
}

void LayerStates::for_pieces(size_t states, PieceBody body) const {
  const size_t pieces = (floats_ + kPieceFloats - 1) / kPieceFloats;
  workspace_.pool.parallel_for(states * pieces, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end; ++i) {
      const size_t first = i % pieces * kPieceFloats;
      body(i / pieces, first, std::min(kPieceFloats, floats_ - first));
    }
  });
}

void LayerStates::done() {
  if (!targets_.empty())
    for_pieces(targets_.size(), [&](size_t state, size_t first, size_t count) {
      const Target& target = targets_[state];
      workspace_.kernels.store_row(kernels::DType::kBF16, target.copy + first, count,
                                   target.kept + first * sizeof(uint16_t));
    });
  step_.write(layer_, nullptr, nullptr);
}

}  // namespace kvick::model
