#pragma once
// Several residual streams (AltUp, Baykal et al. 2023), as Gemma 3n has them: one goes through each
// layer, and the others are predicted and corrected from it. The first stream is Pass::hidden;
// Pass::streams has the others and, while a layer runs, the prediction of the first one.

#include "model/blocks/self_attention.h"

namespace kvick::model {

inline constexpr uint32_t kMostStreams = 8;

// Before the first layer: the other streams are projections of the embedding, of its magnitude.
base::Result<std::unique_ptr<Block>> read_streams(WeightReader& weights, const Config& config);
// Behind the last layer: the mean of all, projected back.
base::Result<std::unique_ptr<Block>> read_merge(WeightReader& weights, const Config& config);

// A layer's first block: predicts all streams; the layer then computes the first one.
base::Result<std::unique_ptr<Block>> read_predict(const BlockReader& reader);
// A layer's last block: the prediction error of the first stream corrects all, and the output of
// the layer's own input (layer_inputs.h) is added to the others.
base::Result<std::unique_ptr<Block>> read_correct(const BlockReader& reader);

// Attention, and beside it two narrow matrices that read the same input (LAuReL, Menghani et al.
// 2024). The residual stream becomes the sum of itself, of what attention gives, of that input and
// of what those two give, divided by the square root of 2.
base::Result<std::unique_ptr<Block>> read_laurel_attention(const BlockReader& reader,
                                                           const SelfAttention::Traits& traits);

}  // namespace kvick::model
