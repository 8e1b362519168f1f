#pragma once
// The forward pass of the engine's llama and bct (model/families/decoder.cc, model/families/bct.cc)
// in libtorch.

#include "train/network/parameters.h"
#include "train/network/selected_attention.h"

namespace kvick::train {

struct Compute {
  torch::ScalarType type = torch::kFloat32;  // of matrix products; sums and norms are float32
  double dropout = 0;                        // of the blocks' outputs, in training
  int64_t chunk = 64;                        // tokens per chunk of memory attention
  RowBudget rows = {};                       // for models with a predictor
};

// tokens: [B, T]. Returns the hidden states after the last norm, [B, T, dim] in compute.type.
// error: for a model with a predictor, set to the mean over layers of Selected::error; may be null.
Tensor hidden_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute, Tensor* error = nullptr);
// Returns the hidden states times the output matrix, which is the embedding: [B, T, vocab] in
// float32.
Tensor logits_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute);
Tensor logits_of(const Tensor& hidden, const Parameters& weights, const Compute& compute);

// Causal attention of q, k, v [B, heads, T, head_dim], where q holds the last tokens of k and v.
// attention_written_out() is the definition. attention(), which needs q of all tokens, uses the
// library's fused kernel if there is one (libtorch 2), else pieces of queries. Both agree up to
// rounding.
Tensor attention_written_out(const Tensor& q, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace kvick::train
