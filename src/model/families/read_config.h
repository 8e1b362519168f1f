#pragma once
// Parts of read_config that families share.

#include <optional>
#include <string>
#include <string_view>

#include "model/core/config.h"

namespace kvick::model {

struct Family;

// Which of a file's blocks are read: the model's layers, or the first of the draft blocks that
// follow them (multi-token prediction).
enum class Blocks : uint8_t { kLayers, kDrafter };

// Reads the config of a model of this family; null: only the sizes. sequence: most tokens per
// sequence, which LongRoPE's frequencies depend on; 0: the model's context.
base::Result<Config> read_config(const io::ModelFile& file, const Family* family,
                                 uint32_t sequence = 0, Blocks blocks = Blocks::kLayers);

// The number of draft blocks, which are the last of config.layers; all of them attend.
base::Result<uint32_t> drafting_blocks(const io::ModelFile& file, const Config& config);

// A number from 1 to `most`.
base::Result<uint32_t> bounded_number(const io::ModelFile& file, const std::string& key,
                                      uint64_t most, std::optional<uint64_t> fallback = {});
base::Result<double> positive_number(const io::ModelFile& file, const std::string& key,
                                     double fallback);

// Mixtures of experts, in the layers that have a router in the file.
base::Status<> read_experts(const io::ModelFile& file, const Family& family, Config& config);

// Latent attention, if the file has it: sets the sizes of heads and rows in layers whose heads and
// kv_heads were read before. False: the file has none.
base::Result<bool> read_latent(const io::ModelFile& file, Config& config);

// Which rotary keys to read: layers with a window may have their own, with the suffix "_swa", and
// the scaling for long contexts may not apply to them.
struct RopeKeys {
  std::string_view suffix = "";
  bool scaled = true;
  double base = 0;  // default if there is no key with the suffix; 0: the other layers'
  bool interleaved = false;
  uint32_t sequence = 0;  // as read_config has it
};
// Reads config.context, which must be set.
base::Result<Rope> read_rope(const io::ModelFile& file, const Config& config, const RopeKeys& keys,
                             uint32_t head_dim);

}  // namespace kvick::model
