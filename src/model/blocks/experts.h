#pragma once
// Mixtures of experts (Shazeer et al. 2017): for each token a router chooses some of many
// feed-forward blocks. Their weighted outputs are added up.

#include "model/blocks/block.h"
#include "model/blocks/feed_forward.h"

namespace kvick::model {

struct MixtureTraits {
  // With a gate: silu(gate) * up, gelu(gate) * up, or gpt-oss's function of both (gated_oai in
  // activation.h). Without one: max(up, 0) squared (Nemotron-H), or gelu(up).
  enum class Activation : uint8_t {
    kSilu,
    kGatedGelu,
    kOai,
    kReluSquared,
    kGelu
  } activation = Activation::kSilu;
  bool weighs_inputs = false;  // an expert's input is weighted, not its output (Llama 4)
  NormNames norms = {.before = "ffn_norm"};
  // The shared expert runs in parallel to the mixture. Both have their own norms before and
  // after, and the router has one too (Gemma 4). `norms` are those before the experts and after
  // the sum.
  bool parallel = false;
};

// One of a token's experts and its weight. A token's choices are sorted best first.
struct Choice {
  uint32_t expert;
  float weight;
};
// Chooses config.used experts by a router's logits, [config.count]; on a tie, the first. bias:
// [config.count] or empty, added to the scores for choosing but not to the weights (DeepSeek-V3,
// section 2.1.2). scratch: [2][config.count]. out: [config.used].
void choose_experts(const ExpertsConfig& config, const float* logits, std::span<const float> bias,
                    float* scratch, Choice* out);

// A batch's pairs of a token and one of its choices. Those of an expert are adjacent, so that its
// weights are read once.
struct ExpertPairs {
  std::vector<uint32_t> token;    // [pairs]
  std::vector<float> weight;      // [pairs]
  std::vector<uint32_t> of;       // [tokens][used]: index of each choice's pair
  std::vector<TokenRun> runs;     // runs of pairs, one for each expert and arithmetic
  std::vector<uint32_t> experts;  // [runs]: the expert of each run
};
// Groups the choices into pairs. chosen: [tokens][used].
ExpertPairs expert_pairs(std::span<const TokenRun> runs, const ExpertsConfig& config,
                         std::span<const Choice> chosen);

// Reads a mixture. The layer's config must have numbers().experts.
base::Result<std::unique_ptr<Block>> read_mixture(const BlockReader& reader,
                                                  const MixtureTraits& traits);

}  // namespace kvick::model
