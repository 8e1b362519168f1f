#pragma once

#include "model/blocks/block.h"

namespace kvick::model {

// The gated forms compute down(act(gate(x)) * up(x)) (Shazeer 2020), the others down(act(up(x))).
// Gelu is the approximation with tanh.
enum class FeedForward : uint8_t { kGatedSilu, kGatedGelu, kGelu, kRelu, kReluSquared };

// Returns the rows of gate or of up in a tensor that has gate's rows, then up's.
Slice rows_of_both(Slice width, bool up);

struct FeedForwardTraits {
  FeedForward form = FeedForward::kGatedSilu;
  WeightReader::Bias bias = WeightReader::Bias::kOptional;
  NormNames norms = {.before = "ffn_norm"};
};
base::Result<std::unique_ptr<Block>> read_feed_forward(const BlockReader& reader,
                                                       const FeedForwardTraits& traits);

}  // namespace kvick::model
