#pragma once
// The families of models that config.json may name, one row each.

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/quantised/expert_rows.h"
#include "io/quantised/scaled_rows.h"

namespace kvick::io {

class Mapper;

// The name of a module after "layers.N.", and GGUF's name for it. "*" stands for an expert's
// number, which becomes the last part of GGUF's name.
struct Rename {
  std::string_view from, to;
};

// Factors of the rows of one module's weights, in all layers.
struct ModuleFactors {
  std::string_view module;  // GGUF's name, "ssm_in"
  std::vector<RowFactor> rows;
};

struct HfFamily {
  std::string_view model_type, architecture;
  bool tied = false;           // transformers' default of tie_word_embeddings
  bool interleaved = false;    // rotary pairs are (2i, 2i+1), as in GGUF's llama
  bool shifted_norms = false;  // norms multiply by 1 + weight (Gemma)
  std::string_view activation = "silu";
  GateUp gate_up = GateUp::kNone;                // HfConfig::gate_up
  std::span<const Rename> modules = {};          // HfConfig::modules
  std::span<const Rename> expert_modules = {};   // instead, in models with experts; empty: the same
  base::Status<> (*map)(Mapper& map) = nullptr;  // maps fields that only this family has
  // Maps all fields, in place of `map` and of the fields that most families have.
  base::Status<> (*map_all)(Mapper& map) = nullptr;
  bool grouped_norms = false;  // the output of a state is normalised in ssm.group_count groups
  // Returns the factors that the config has beside the weights; null: none.
  base::Result<std::vector<ModuleFactors>> (*factors)(const Mapper& map) = nullptr;
  // Of encoders: the names of tensors outside of the layers, and what stands in front of a layer's
  // number.
  std::span<const Rename> outer = {};
  std::string_view layers = "layers.";
  // The first rows of the table of positions, up to pad_token_id, are for no position.
  bool padded_positions = false;
  // The matrices of a layer's experts lie one below the other, the second one turned (megablocks).
  bool flat_experts = false;
  // Weights may have low-rank adapters beside them, one for each task, which are not read.
  bool task_adapters = false;
  // transformers' defaults, as JSON, of fields that published files omit.
  std::string_view defaults = {};
};

std::span<const HfFamily> hf_families();
// Returns nullptr for an unknown model_type.
const HfFamily* find_hf_family(std::string_view model_type);

}  // namespace kvick::io
