#pragma once
// A Hugging Face config.json in GGUF's vocabulary.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "io/file/model_file.h"
#include "io/huggingface/json.h"

namespace kvick::io {

struct HfFamily;

// What of a config.json the rest of the folder is read by.
struct HfConfig {
  const HfFamily* family = nullptr;
  std::string architecture;  // GGUF's: "llama", "qwen2", "qwen3", "opt"
  uint64_t layers = 0;
  uint64_t vocabulary = 0;
  bool tied = false;  // the output matrix is the embedding
};

// Adds <arch>.* and general.architecture to `out`. Error: an architecture that kvick cannot map,
// naming those it can; a missing or contradictory field; a setting that would change the arithmetic
// and that no model of kvick has.
base::Result<HfConfig> map_config(const JsonObject& config, Metadata& out);

}  // namespace kvick::io
