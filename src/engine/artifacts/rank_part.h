#pragma once
// A rank's part (model/ranks/ranks.h) of an artifact that was made for all layers and KV heads.

#include <memory>

#include "base/result.h"
#include "kv/select/predictor.h"
#include "kv/strategy/ranges.h"
#include "model/core/model.h"
#include "model/core/share.h"

namespace kvick::engine {

// A rank's layers and KV heads, for models with the same number of heads in all layers.
struct RankPart {
  uint32_t first_layer = 0, layers = 0;
  model::Slice kv_heads;
};
// Returns the part of the model that this process has: without ranks, all of it.
RankPart rank_part(const model::Model& model);

// Error: a part of the heads of a random projection, which mixes all heads.
base::Result<std::shared_ptr<const kv::Predictor>> part_of(
    std::shared_ptr<const kv::Predictor> whole, const RankPart& part);
std::shared_ptr<const kv::StaticRanges> part_of(std::shared_ptr<const kv::StaticRanges> whole,
                                                const RankPart& part);

}  // namespace kvick::engine
