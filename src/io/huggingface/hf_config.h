#pragma once
// Maps a Hugging Face config.json to GGUF's keys.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/families/hf_families.h"
#include "io/file/model_file.h"
#include "io/quantised/expert_rows.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// What reading the rest of the folder needs from config.json.
struct HfConfig {
  std::string architecture;              // GGUF's name: "llama", "qwen2", "opt"
  std::span<const Rename> modules = {};  // searched before the modules that all families have
  uint64_t layers = 0;
  uint64_t unread_layers = 0;  // layers after those, for multi-token prediction; not read
  uint64_t vocabulary = 0;
  bool tied = false;  // the output matrix is the embedding
  // This is the text part of a multimodal model: only its tensors under "language_model." are read.
  bool nested = false;
  // Of encoders: as in HfFamily. Decoders have names of their own (hf_names.cc).
  std::span<const Rename> outer = {};
  std::string_view layer_prefix = "layers.";
  uint64_t padded_positions = 0;  // rows before that of the first position
  uint64_t flat_experts = 0;      // experts of a layer that lie one below the other; 0: none
  bool task_adapters = false;     // as in HfFamily
  bool scores = false;            // an encoder with a head that scores pairs of texts
  GateUp gate_up = GateUp::kNone;
  std::vector<ModuleFactors> factors = {};  // of modules whose weights are multiplied
  uint64_t state_groups = 1;                // groups in which the output of a state is normalised
};

// Adds <arch>.* and general.architecture to `out`. Errors: an architecture that kvick cannot map
// (the message names those it can); a missing or contradictory field; a setting that changes the
// arithmetic in a way that kvick does not support.
base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out);

}  // namespace kvick::io
