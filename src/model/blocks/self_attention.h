#pragma once

#include "model/blocks/block.h"

namespace kvick::model {

// RMSNorm of queries and keys: of each head before rotation, of all heads of a token together
// before it, or of each head after it and without weights, in layers that rotate (Llama 4).
enum class QkNorm : uint8_t { kNone, kHead, kAllHeads, kRotated };

// Grouped-query attention (Ainslie et al. 2023) with what families add to it.
class SelfAttention final : public Block {
 public:
  struct Traits {
    WeightReader::Bias qkv_bias = WeightReader::Bias::kOptional;
    WeightReader::Bias out_bias = WeightReader::Bias::kOptional;
    QkNorm qk_norm = QkNorm::kNone;
    NormNames norms = {.before = "attn_norm"};
  };
  // A layer that reads another's rows has no keys and values of its own.
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader, const Traits& traits);

  Rest run(const Pass& pass, Rest rest) const override;

 private:
  struct Heads {
    uint32_t count;
    QkNorm norm;
    const std::vector<float>& weight;  // of the norm
  };

  base::Status<> read_inputs(const BlockReader& reader, const Traits& traits);
  base::Status<> read_heads(const BlockReader& reader, const Traits& traits);
  void project_inputs(const Pass& pass, Rest rest, std::initializer_list<Output> outputs) const;
  // Norms and rotates the query or key heads of one token.
  void prepare(const Pass& pass, const Heads& heads, uint32_t token, float* x) const;
  void temper(const Pass& pass, uint32_t token, float* q) const;

  uint32_t layer_ = 0;
  Norm norm_, post_norm_;
  Linear q_, k_, v_, out_;
  QkNorm qk_norm_ = QkNorm::kNone;
  std::vector<float> q_norm_, k_norm_;  // [k_dim], or of all heads; of kRotated ones
  std::vector<float> sinks_;            // [heads], or empty
};

}  // namespace kvick::model
