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

// What of a config.json the rest of the folder is read by.
struct HfConfig {
  std::string architecture;              // GGUF's: "llama", "qwen2", "opt"
  std::span<const Rename> modules = {};  // beside and before those that all families have
  uint64_t layers = 0;
  uint64_t unread_layers = 0;  // behind them, for predicting several tokens at once
  uint64_t vocabulary = 0;
  bool tied = false;  // the output matrix is the embedding
  // The text model of one that sees or hears: of its tensors those behind "language_model."
  bool nested = false;
  GateUp gate_up = GateUp::kNone;
};

// Adds <arch>.* and general.architecture to `out`. Error: an architecture that kvick cannot map,
// naming those it can; a missing or contradictory field; a setting that would change the arithmetic
// and that no model of kvick has.
base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out);

}  // namespace kvick::io
