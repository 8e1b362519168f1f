#pragma once
// The architectures, one row each: what model files may say in general.architecture, and what its
// models have that others have not.

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

// What a model has beside its layers.
struct Parts {
  Input input;
  Head head;
  TextHead text;                      // of embeddings and scores
  Layer before, behind;               // blocks before the first layer and behind the last
  std::unique_ptr<SlotMemory> slots;  // null: none
};

struct Family {
  std::string_view name;

  // Its numbers, beside the keys that read_config reads of all families.
  bool rotates = true;       // rotary embedding
  bool interleaved = false;  // it turns pairs (2i, 2i+1)
  bool both_ways = false;    // an encoder, though the file may not say so
  std::string_view eps_key = "attention.layer_norm_rms_epsilon";
  // Which layers see a window.
  struct Windows {
    uint32_t size = 0;  // where the file names none; 0: then there is none
    // Where the file has no pattern: all but the last of so many layers have it. 0: all.
    uint32_t period = 0;
    bool full_first = false;  // all but the first of them
    bool chunked = false;
    bool ignored = false;  // files name one that the model does not have
    double rope_base = 0;  // of those layers where the file has none; 0: that of the others
    // Whether scaling for long contexts is for those layers too. kUnlessOwnKeys: if the file has no
    // rotary keys for them.
    enum class Scaled : uint8_t { kUnlessOwnKeys, kNever, kAlways } scaled = Scaled::kUnlessOwnKeys;
  } windows = {};
  // Which layers keep a state in place of rows, or are a feed-forward block alone, and the numbers
  // of their states; heads and widths are those of the file, in which others than these must have
  // some. Null: all layers attend.
  base::Status<> (*read_states)(const io::ModelFile& file, Config& config) = nullptr;
  base::Status<> (*configure)(const io::ModelFile& file, Config& config) = nullptr;
  ExpertsConfig experts = {};  // router, normalised and scale, where the file does not say

  // Its layers: attention (LatentAttention where the file has latent rows) or a state, then a
  // feed-forward block; what a layer's numbers say that it has of them.
  NormKind norms = NormKind::kRms;
  std::string_view last_norm = "output_norm";  // empty: none
  SelfAttention::Traits attention = {};
  FeedForwardTraits feed_forward = {};
  MixtureTraits mixture = {};  // in place of it, where a layer has experts
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
