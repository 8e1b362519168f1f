#pragma once
// Several residual streams (AltUp, Baykal et al. 2023), as in Gemma 3n: one goes through each
// layer, and the others are predicted and corrected from it. The first stream is Pass::hidden.
// Pass::streams holds the others and, while a layer runs, the prediction of the first one.

#include "model/blocks/self_attention.h"

namespace kvick::model {

inline constexpr uint32_t kMostStreams = 8;

// Runs before the first layer: makes the other streams from projections of the embedding, scaled to
// its length.
base::Result<std::unique_ptr<Block>> read_streams(WeightReader& weights, const Config& config);
// Runs after the last layer: the mean of all streams, after projecting them back.
base::Result<std::unique_ptr<Block>> read_merge(WeightReader& weights, const Config& config);

// A layer's first block: predicts all streams. The layer then computes the first one.
base::Result<std::unique_ptr<Block>> read_predict(const BlockReader& reader);
// A layer's last block: the prediction error of the first stream corrects all streams, and the
// output of the per-layer input (layer_inputs.h) is added to the other streams.
base::Result<std::unique_ptr<Block>> read_correct(const BlockReader& reader);

// Attention and, in parallel, two narrow matrices that read the same input (LAuReL, Menghani et al.
// 2024). The new residual stream is (the stream + attention's output + that input + the output of
// the two matrices) / sqrt(2).
base::Result<std::unique_ptr<Block>> read_laurel_attention(const BlockReader& reader,
                                                           const SelfAttention::Traits& traits);

}  // namespace kvick::model
