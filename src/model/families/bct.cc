// Bounded-Cache Transformer (Yi et al. 2024): layers of the llama family that attend to slots.

#include <algorithm>

#include "model/families/family.h"

namespace kvick::model {
namespace {

using base::Result;

Result<uint32_t> read_slots(const io::ModelFile& file, const Config& config) {
  constexpr uint64_t kMostSlots = 1 << 20, kMostRows = UINT32_MAX / 2;
  const uint32_t kv_heads = config.layers.front().kv_heads;
  KVICK_TRY(const uint64_t slots, file.get_uint("bct.memory.slots"));
  if (slots == 0 || slots > kMostSlots || slots * kv_heads > kMostRows)
    return base::fail("{}: bct.memory.slots is {}, outside 1 to {}", file.path(), slots,
                      std::min(kMostSlots, kMostRows / kv_heads));
  KVICK_TRY(const uint64_t rotated, file.get_uint("bct.rope.dimension_count", 0));
  if (rotated != 0)
    return base::fail("{}: bct.rope.dimension_count is {}, but bct has no rotary embedding",
                      file.path(), rotated);
  return static_cast<uint32_t>(slots);
}

// Returns whether a gate scales down the slots' previous content when a token writes.
Result<bool> read_gated(const io::ModelFile& file) {
  KVICK_TRY(const std::string update, file.get_string("bct.memory.update", "step"));
  if (update != "plain" && update != "step" && update != "gated")
    return base::fail("{}: bct.memory.update is {}; kvick has plain, step and gated", file.path(),
                      update);
  return update == "gated";
}

// Returns whether a head's output is normalised.
Result<bool> read_normed(const io::ModelFile& file) {
  KVICK_TRY(const std::string read, file.get_string("bct.memory.read", "plain"));
  if (read != "plain" && read != "normed")
    return base::fail("{}: bct.memory.read is {}; kvick has plain and normed", file.path(), read);
  return read == "normed";
}

}  // namespace

base::Status<> configure_bct(const io::ModelFile& file, Config& config) {
  for (LayerConfig& layer : config.layers) layer.kind = LayerConfig::Kind::kSlots;
  if (config.layers_alike()) return base::Done{};
  return base::fail("{}: layers of different heads share no memory of slots", file.path());
}

base::Status<> read_bct_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts) {
  const LayerConfig& layer = config.layers.front();
  auto memory = std::make_unique<SlotMemory>();
  KVICK_TRY(memory->facts.slots, read_slots(file, config));
  KVICK_TRY(memory->gated, read_gated(file));
  KVICK_TRY(memory->normed, read_normed(file));
  memory->facts.scale = layer.scale;
  memory->initial = weights.has("blk.0.memory_init.weight");
  if (weights.has("blk.0.memory_before.weight")) memory->facts.carried = layer.k_floats();
  parts.slots = std::move(memory);
  return base::Done{};
}

Result<Layer> read_bct_layer(const BlockReader& reader, const Family& family, Parts& parts) {
  Layer layer(2);
  KVICK_TRY(layer[0], SlotAttention::read(reader, *parts.slots));
  KVICK_TRY(layer[1], read_feed_forward(reader, family.feed_forward));
  return layer;
}

}  // namespace kvick::model
