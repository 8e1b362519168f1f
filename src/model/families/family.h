#pragma once
// The architectures, one row each: the value of general.architecture in model files, and what
// distinguishes its models from others.

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
  Layer before, behind;               // blocks before the first layer and behind the last
  std::unique_ptr<SlotMemory> slots;  // null: none
};

struct Family {
  std::string_view name;

  // Its numbers, in addition to the keys that read_config reads for all families.
  bool rotates = true;       // rotary embedding
  bool interleaved = false;  // it rotates pairs (2i, 2i+1)
  bool both_ways = false;    // an encoder, though the file may not say so
  std::string_view eps_key = "attention.layer_norm_rms_epsilon";
  // Which layers have a sliding window.
  struct Windows {
    uint32_t size = 0;  // default if the file has none; 0: no window
    // If the file has no pattern: of each `period` layers all but the last have it. 0: all do.
    uint32_t period = 0;
    bool full_first = false;  // all but the first instead
    bool chunked = false;
    double rope_base = 0;  // windowed layers' default; 0: that of the others
    // Whether scaling for long contexts applies to windowed layers too. kUnlessOwnKeys: only if the
    // file has no rotary keys for them.
    enum class Scaled : uint8_t { kUnlessOwnKeys, kNever, kAlways } scaled = Scaled::kUnlessOwnKeys;
  } windows = {};
  // Finds the layers that keep a state instead of rows, or are only a feed-forward block, and the
  // sizes of their states. Heads and widths come from the file; all other layers must have heads.
  // Null: all layers attend.
  base::Status<> (*read_states)(const io::ModelFile& file, Config& config) = nullptr;
  base::Status<> (*configure)(const io::ModelFile& file, Config& config) = nullptr;
  // Where the file does not say; 0: none.
  struct Softcaps {
    float attention = 0, logits = 0;
  } softcaps = {};
  ExpertsConfig experts = {};  // router, normalised and scale, where the file does not say

  // Its layers: attention (LatentAttention if the file has latent rows) or a state, then a
  // feed-forward block, as far as the layer's numbers say that it has them.
  NormKind norms = NormKind::kRms;
  std::string_view last_norm = "output_norm";  // empty: none
  SelfAttention::Traits attention = {};
  FeedForwardTraits feed_forward = {};
  MixtureTraits mixture = {};  // replaces it if a layer has experts
  // Reads layers made of other blocks; null: none.
  base::Result<Layer> (*read_layer)(const BlockReader& reader, const Family& family,
                                    Parts& parts) = nullptr;
  // Reads its other parts, before the layers; null: none.
  base::Status<> (*read_parts)(const io::ModelFile& file, WeightReader& weights,
                               const Config& config, Parts& parts) = nullptr;
};

std::span<const Family> families();
// Null: no family of that name. more: rows that are searched first.
const Family* find_family(std::string_view name, std::span<const Family> more = {});

// In files of their own.
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
