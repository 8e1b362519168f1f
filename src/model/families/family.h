#pragma once
// The architectures, one row each: what model files may say in general.architecture, and what its
// models have that others have not.

#include <span>
#include <string_view>

#include "model/blocks/ends.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/self_attention.h"
#include "model/blocks/slot_attention.h"

namespace kvick::model {

// What a model has beside its layers.
struct Parts {
  Input input;
  Head head;
  std::unique_ptr<SlotMemory> slots;  // null: none
};

struct Family {
  std::string_view name;

  // Its numbers, beside the keys that read_config reads of all families.
  bool rotates = true;  // rotary embedding
  std::string_view eps_key = "attention.layer_norm_rms_epsilon";
  // Where the file has a window but no pattern: all but the last of so many layers have it. 0: all.
  uint32_t window_period = 0;
  base::Status<> (*configure)(const io::ModelFile& file, Config& config) = nullptr;

  // Its layers: attention, then a feed-forward block.
  NormKind norms = NormKind::kRms;
  SelfAttention::Traits attention = {};
  FeedForwardTraits feed_forward = {};
  // Layers of other blocks.
  base::Result<Layer> (*read_layer)(const BlockReader& reader, const Family& family,
                                    Parts& parts) = nullptr;
  // What else it has, read before the layers.
  base::Status<> (*read_parts)(const io::ModelFile& file, WeightReader& weights,
                               const Config& config, Parts& parts) = nullptr;
};

std::span<const Family> families();
// Null: there is none of that name. more: rows that are looked through first.
const Family* find_family(std::string_view name, std::span<const Family> more = {});

// In files of their own.
base::Status<> configure_opt(const io::ModelFile& file, Config& config);
base::Status<> read_opt_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts);
base::Status<> configure_bct(const io::ModelFile& file, Config& config);
base::Status<> read_bct_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts);
base::Result<Layer> read_bct_layer(const BlockReader& reader, const Family& family, Parts& parts);

}  // namespace kvick::model
