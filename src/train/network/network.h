#pragma once
// The forward of the engine's llama and bct (model/families/decoder.cc, model/families/bct.cc) in
// libtorch.

#include "train/network/parameters.h"
#include "train/network/selected_attention.h"

namespace kvick::train {

struct Compute {
  torch::ScalarType type = torch::kFloat32;  // of matrix products; sums and norms are float32
  double dropout = 0;                        // of what blocks add, in training
  int64_t chunk = 64;                        // tokens of a piece of memory attention
  RowBudget rows = {};                       // of models with a predictor
};

// tokens: [B, T]. Returns [B, T, dim] after the last norm, of compute.type. error: for a model with
// a predictor, set to the mean over layers of the error of predicted scores (Selected::error);
// null: not wanted.
Tensor hidden_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute, Tensor* error = nullptr);
// [B, T, vocab], float32: these times the output matrix, which is the embedding.
Tensor logits_of(const Parameters& weights, const ModelSettings& model, const Tensor& tokens,
                 const Compute& compute);
Tensor logits_of(const Tensor& hidden, const Parameters& weights, const Compute& compute);

// Causal attention of q, k, v [B, heads, T, head_dim], q of the last tokens that k and v have:
// written out, and of all tokens by the library's fused kernel where there is one (libtorch 2) or
// in pieces: the same but for rounding.
Tensor attention_written_out(const Tensor& q, const Tensor& k, const Tensor& v);
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace kvick::train
