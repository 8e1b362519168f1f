#pragma once

#include "model/blocks/block.h"

namespace kvick::model {

// Latent attention (DeepSeek-V2, section 2.1). A token keeps one row that all heads read: a latent
// vector, which is also the value, followed by the rotated part of the key. The matrices that would
// expand the row to each head's key and value are applied to the query and to the attended vector
// instead (appendix C.2: "absorbed"). So no row is ever expanded.
class LatentAttention final : public Block {
 public:
  static base::Result<std::unique_ptr<Block>> read(const BlockReader& reader,
                                                   const NormNames& norms);

  Rest run(const Pass& pass, Rest rest) const override;

 private:
  base::Status<> read_inputs(const BlockReader& reader);
  base::Status<> read_heads(const BlockReader& reader);
  const LayerConfig& numbers(const Pass& pass) const { return pass.config.layers[layer_]; }
  struct Inputs {
    float* q;        // [tokens][heads][plain + rotated]
    float* low;      // [tokens][q_rank], low-rank queries
    float* rows;     // [tokens][row], the rows for the store
    float* queries;  // [tokens][heads][row], the queries that read those rows
  };
  Inputs room_for(const Pass& pass) const;
  void project_inputs(const Pass& pass, Rest rest, const Inputs& to) const;
  void rotate(const Pass& pass, uint32_t token, float* x) const;
  void transform(const Pass& pass, float* x, size_t floats) const;
  // Computes y[h][t] = layers[h](x(t, h)) for all tokens and heads: [heads][tokens][...]. x:
  // returns the input vector of a token and head.
  using VectorOf = base::FunctionRef<const float*(uint32_t token, uint32_t head)>;
  const float* project_heads(const Pass& pass, const std::vector<Linear>& layers, VectorOf x) const;
  void make_queries(const Pass& pass, const Inputs& inputs) const;

  uint32_t layer_ = 0;
  Norm norm_, post_norm_;
  std::vector<float> low_norm_, latent_norm_;  // [q_rank], or empty; [rank]
  Linear low_, q_, rows_, out_;
  std::vector<Linear> to_latent_;    // [heads]: unrotated part of a query to [rank]
  std::vector<Linear> from_latent_;  // [heads]: attended [rank] to [v_dim]
};

}  // namespace kvick::model
