#pragma once
// The architectures, one row each: the value of general.architecture in model files, and how its
// models differ from others.

#include <span>
#include <string_view>

#include "model/blocks/ends.h"
#include "model/blocks/experts.h"
#include "model/blocks/feed_forward.h"
#include "model/blocks/latent_attention.h"
#include "model/blocks/self_attention.h"
#include "model/blocks/slot_attention.h"
#include "model/families/text_head.h"

namespace kvick::model {

// The parts of a model besides its layers.
struct Parts {
  Input input;
  Head head;
  TextHead text;                      // for embeddings and scores
  Layer before, behind;               // blocks before the first layer and after the last
  std::unique_ptr<SlotMemory> slots;  // null: none
};

struct Family {
  std::string_view name;

  // Numbers that add to the keys that read_config reads for all families.
  bool rotates = true;       // has rotary embedding
  bool interleaved = false;  // rotates pairs (2i, 2i+1)
  bool both_ways = false;    // it is an encoder, even if the file does not say so
  std::string_view eps_key = "attention.layer_norm_rms_epsilon";
  // Which layers have a sliding window.
  struct Windows {
    uint32_t size = 0;  // default if the file has no size; 0: no window
    // If the file has no pattern: all but the last of each `period` layers have a window. 0: all
    // layers have it.
    uint32_t period = 0;
    bool full_first = false;  // all but the first of each period instead
    bool chunked = false;
    double rope_base = 0;  // default base of layers with a window; 0: that of the other layers
    // Whether scaling for long contexts applies to layers with a window too. kUnlessOwnKeys: only
    // if the file has no rotary keys for them.
    enum class Scaled : uint8_t { kUnlessOwnKeys, kNever, kAlways } scaled = Scaled::kUnlessOwnKeys;
  } windows = {};
  // Finds the layers that keep a state instead of rows or are only a feed-forward block, and the
  // sizes of their states. Heads and widths come from the file; all other layers must have heads.
  // Null: all layers attend.
  base::Status<> (*read_states)(const io::ModelFile& file, Config& config) = nullptr;
  base::Status<> (*configure)(const io::ModelFile& file, Config& config) = nullptr;
  // Defaults for keys that the file lacks; 0: no softcap.
  struct Softcaps {
    float attention = 0, logits = 0;
  } softcaps = {};
  ExpertsConfig experts =
      {};  // router, normalised and scale are defaults for keys that the file lacks

  // Blocks of a layer: attention (LatentAttention if the file has latent rows) or a state, then a
  // feed-forward block, if the layer's numbers say that it has them.
  NormKind norms = NormKind::kRms;
  std::string_view last_norm =
      "output_norm";  // name of the norm before the output layer; empty: none
  SelfAttention::Traits attention = {};
  FeedForwardTraits feed_forward = {};
  MixtureTraits mixture = {};  // replaces feed_forward if a layer has experts
  // Reads layers made of other blocks; null: the layers have the blocks above.
  base::Result<Layer> (*read_layer)(const BlockReader& reader, const Family& family,
                                    Parts& parts) = nullptr;
  // Reads the other parts of the model, before its layers; null: it has none.
  base::Status<> (*read_parts)(const io::ModelFile& file, WeightReader& weights,
                               const Config& config, Parts& parts) = nullptr;
};

std::span<const Family> families();
// Returns the family of that name, or null. more: rows that are searched first.
const Family* find_family(std::string_view name, std::span<const Family> more = {});

// Defined in separate files.
base::Status<> configure_phi3(const io::ModelFile& file, Config& config);
base::Status<> configure_opt(const io::ModelFile& file, Config& config);
base::Status<> read_opt_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts);
base::Status<> scale_embedding_by_width(const io::ModelFile& file, Config& config);
base::Status<> configure_gemma(const io::ModelFile& file, Config& config);
base::Status<> configure_gemma3n(const io::ModelFile& file, Config& config);
base::Status<> configure_gemma4(const io::ModelFile& file, Config& config);
base::Status<> read_gemma_parts(const io::ModelFile& file, WeightReader& weights,
                                const Config& config, Parts& parts);
base::Result<Layer> read_gemma3n_layer(const BlockReader& reader, const Family& family,
                                       Parts& parts);
base::Result<Layer> read_gemma4_layer(const BlockReader& reader, const Family& family,
                                      Parts& parts);
base::Status<> configure_smollm3(const io::ModelFile& file, Config& config);
base::Status<> configure_minicpm(const io::ModelFile& file, Config& config);
base::Status<> configure_exaone4(const io::ModelFile& file, Config& config);
base::Status<> configure_cohere(const io::ModelFile& file, Config& config);
base::Result<Layer> read_cohere_layer(const BlockReader& reader, const Family& family,
                                      Parts& parts);
base::Status<> configure_granite(const io::ModelFile& file, Config& config);
base::Status<> configure_mistral3(const io::ModelFile& file, Config& config);
base::Status<> configure_llama4(const io::ModelFile& file, Config& config);
base::Status<> configure_deepseek2(const io::ModelFile& file, Config& config);
base::Status<> configure_glm4moe(const io::ModelFile& file, Config& config);
base::Status<> configure_minicpm3(const io::ModelFile& file, Config& config);
base::Status<> read_short_conv_states(const io::ModelFile& file, Config& config);
base::Status<> read_mamba2_states(const io::ModelFile& file, Config& config);
base::Status<> read_nemotron_states(const io::ModelFile& file, Config& config);
base::Status<> read_delta_states(const io::ModelFile& file, Config& config);
base::Status<> read_falcon_states(const io::ModelFile& file, Config& config);
base::Result<Layer> read_falcon_layer(const BlockReader& reader, const Family& family,
                                      Parts& parts);
base::Status<> configure_bert(const io::ModelFile& file, Config& config);
base::Status<> configure_jina_bert_v2(const io::ModelFile& file, Config& config);
base::Status<> configure_modern_bert(const io::ModelFile& file, Config& config);
base::Status<> read_bert_parts(const io::ModelFile& file, WeightReader& weights,
                               const Config& config, Parts& parts);
base::Status<> configure_bct(const io::ModelFile& file, Config& config);
base::Status<> read_bct_parts(const io::ModelFile& file, WeightReader& weights,
                              const Config& config, Parts& parts);
base::Result<Layer> read_bct_layer(const BlockReader& reader, const Family& family, Parts& parts);

}  // namespace kvick::model
