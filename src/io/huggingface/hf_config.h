#pragma once
// A Hugging Face config.json in GGUF's vocabulary.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/quantised/expert_rows.h"
#include "io/safetensors/json.h"

namespace kvick::io {

// A module's name behind "layers.N.", and GGUF's name for it. "*" stands for an expert's number,
// which becomes the last part of GGUF's name.
struct Rename {
  std::string_view from, to;
};

// The parts of a config.json that reading the rest of the folder needs.
struct HfConfig {
  std::string architecture;              // GGUF's: "llama", "qwen2", "opt"
  std::span<const Rename> modules = {};  // searched before those that all families have
  uint64_t layers = 0;
  uint64_t unread_layers = 0;  // after them, for multi-token prediction
  uint64_t vocabulary = 0;
  bool tied = false;  // the output matrix is the embedding
  // The text part of a multimodal model: only its tensors under "language_model." are read.
  bool nested = false;
  GateUp gate_up = GateUp::kNone;
};

// Adds <arch>.* and general.architecture to `out`. Errors: an architecture that kvick cannot map
// (the message names those it can); a missing or contradictory field; a setting that would change
// the arithmetic in a way that kvick does not support.
base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out);

}  // namespace kvick::io
