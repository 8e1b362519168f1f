#pragma once

#include "model/blocks/block.h"

namespace kvick::model {

// Norms of queries and keys. kHead: RMSNorm of each head before rotation. kAllHeads: the model's
// kind of norm over all heads of a token together, before rotation. kRotated: RMSNorm of each head
// without weights after rotation, in layers that rotate (Llama 4). kBehindRope: RMSNorm of each
// head after rotation (Hunyuan).
enum class QkNorm : uint8_t { kNone, kHead, kAllHeads, kRotated, kBehindRope };

// Grouped-query attention (Ainslie et al. 2023) with the variations of the families.
class SelfAttention final : public Block {
 public:
  struct Traits {
    WeightReader::Bias qkv_bias = WeightReader::Bias::kOptional;
    WeightReader::Bias out_bias = WeightReader::Bias::kOptional;
    QkNorm qk_norm = QkNorm::kNone;
    // Each head has as many gates as query elements: its output is multiplied by their sigmoids
    // (Qiu et al. 2025, "Gated Attention for Large Language Models").
    bool gated = false;
    // Value heads are normalised too, without weights. A layer without a value matrix takes its
    // keys before their norm as values (Gemma 4).
    bool value_norm = false;
    NormNames norms = {.before = "attn_norm"};
    bool norm_optional = false;  // a layer may lack the norm of its input
  };
  // Reads a layer's tensors. A layer that reads another layer's rows has no keys and values of its
  // own.
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader, const Traits& traits);

  Rest run(const Pass& pass, Rest rest) const override;

 private:
  struct Heads {
    uint32_t count;
    QkNorm norm;
    const Norm& weight;
  };

  base::Status<> read_inputs(const BlockReader& reader, const Traits& traits);
  base::Status<> read_heads(const BlockReader& reader, const Traits& traits);
  void project_inputs(const Pass& pass, Rest rest, std::initializer_list<Output> outputs) const;
  // Normalises and rotates the query or key heads of one token.
  void prepare(const Pass& pass, const Heads& heads, uint32_t token, float* x) const;
  // Splits one token's projection `mixed` into query heads and their gates.
  void split_gates(const Pass& pass, const float* mixed, uint32_t token, float* q,
                   float* gates) const;
  void prepare_values(const Pass& pass, uint32_t token, const float* k, float* v) const;
  void transform(const Pass& pass, uint32_t token, float* q, float* k, float* v) const;
  void temper(const Pass& pass, uint32_t token, float* q) const;

  uint32_t layer_ = 0;
  BlockNorms norms_;
  Linear q_, k_, v_, out_;
  QkNorm qk_norm_ = QkNorm::kNone;
  bool gated_ = false;         // q_ outputs [heads][queries, gates]
  Norm q_norm_, k_norm_;       // [k_dim], or [all heads]; ones for kRotated
  std::vector<float> v_norm_;  // [v_dim] ones; empty: values are not normalised
  std::vector<float> sinks_;   // [heads], or empty
  std::vector<float> slopes_;  // [heads] for LayerConfig::alibi, or empty
};

}  // namespace kvick::model
