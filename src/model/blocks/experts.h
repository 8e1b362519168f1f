#pragma once
// Mixtures of experts (Shazeer et al. 2017): a router chooses, for each token, some of many
// feed-forward blocks, and adds up what they say, weighted.

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
  // The shared expert is a feed-forward block beside the others, of which each has norms of its own
  // before and behind, as has the router (Gemma 4): `norms` are those before the experts and behind
  // the sum.
  bool parallel = false;
};

// A token's experts, best first, and what each of them counts.
struct Choice {
  uint32_t expert;
  float weight;
};
// Chooses config.used experts by a router's logits, [config.count]; equal ones: the first. bias:
// what is added to scores for choosing, not for weighing, [config.count] or empty (DeepSeek-V3,
// section 2.1.2). scratch: [2][config.count].
void choose_experts(const ExpertsConfig& config, const float* logits, std::span<const float> bias,
                    float* scratch, Choice* out);

// Needs numbers().experts of the layer.
base::Result<std::unique_ptr<Block>> read_mixture(const BlockReader& reader,
                                                  const MixtureTraits& traits);

}  // namespace kvick::model
