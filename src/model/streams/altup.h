#pragma once
// Several residual streams, of which one goes through each layer and the others follow by what they
// learnt of it (AltUp, Baykal et al. 2023), as Gemma 3n has it. The first stream is Pass::hidden;
// Pass::streams has the others and, while a layer runs, what was predicted of the first one.

#include "model/blocks/self_attention.h"

namespace kvick::model {

inline constexpr uint32_t kMostStreams = 8;

// Before the first layer: the other streams are projections of the embedding, of its magnitude.
base::Result<std::unique_ptr<Block>> read_streams(WeightReader& weights, const Config& config);
// Behind the last layer: the mean of all, projected back.
base::Result<std::unique_ptr<Block>> read_merge(WeightReader& weights, const Config& config);

// A layer's first block: a guess of all streams, of which the layer computes the first.
base::Result<std::unique_ptr<Block>> read_predict(const BlockReader& reader);
// Its last one: what was wrong in the guess of the first corrects all, and what the layer makes of
// its inputs (layer_inputs.h) goes to the others.
base::Result<std::unique_ptr<Block>> read_correct(const BlockReader& reader);

// Attention, and beside it two narrow matrices that read the same input (LAuReL, Menghani et al.
// 2024). The residual stream becomes the sum of itself, of what attention gives, of that input and
// of what those two give, divided by the square root of 2.
base::Result<std::unique_ptr<Block>> read_laurel_attention(const BlockReader& reader,
                                                           const SelfAttention::Traits& traits);

}  // namespace kvick::model
