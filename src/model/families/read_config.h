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

// Reads the config of a model of this family; null: only the sizes. sequence: maximum tokens per
// sequence, which LongRoPE's frequencies depend on; 0: the model's context.
base::Result<Config> read_config(const io::ModelFile& file, const Family* family,
                                 uint32_t sequence = 0, Blocks blocks = Blocks::kLayers);

// Returns the number of draft blocks, which are the last of config.layers. All of them attend.
base::Result<uint32_t> drafting_blocks(const io::ModelFile& file, const Config& config);

// Reads a number from 1 to `most`.
base::Result<uint32_t> bounded_number(const io::ModelFile& file, const std::string& key,
                                      uint64_t most, std::optional<uint64_t> fallback = {});
base::Result<double> positive_number(const io::ModelFile& file, const std::string& key,
                                     double fallback);

// Reads the numbers of mixtures of experts, for the layers whose router is in the file.
base::Status<> read_experts(const io::ModelFile& file, const Family& family, Config& config);

// Reads latent attention, if the file has it: sets the sizes of heads and rows in layers whose
// heads and kv_heads were already read. Returns false if the file has none.
base::Result<bool> read_latent(const io::ModelFile& file, Config& config);

// Which rotary keys to read. Layers with a window may have their own, with the suffix "_swa", and
// the scaling for long contexts may not apply to them.
struct RopeKeys {
  std::string_view suffix = "";
  bool scaled = true;
  double base = 0;  // default if no key has the suffix; 0: the other layers' base
  bool interleaved = false;
  uint32_t sequence = 0;  // the parameter of read_config
};
// Reads a layer's rotary embedding. config.context must be set.
base::Result<Rope> read_rope(const io::ModelFile& file, const Config& config, const RopeKeys& keys,
                             uint32_t head_dim);

}  // namespace kvick::model
