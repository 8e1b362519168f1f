#pragma once
// What a rank (model/ranks/ranks.h) takes of a file that was made for all layers and KV heads.

#include <memory>

#include "base/result.h"
#include "kv/select/predictor.h"
#include "kv/strategy/ranges.h"
#include "model/core/model.h"
#include "model/core/share.h"

namespace kvick::engine {

// Of a model whose layers have as many heads each.
struct RankPart {
  uint32_t first_layer = 0, layers = 0;
  model::Slice kv_heads;
};
// What this process has of the model: all of it without ranks.
RankPart rank_part(const model::Model& model);

// Error: some heads were asked for of a random projection, which is of all of them in one.
base::Result<std::shared_ptr<const kv::Predictor>> part_of(
    std::shared_ptr<const kv::Predictor> whole, const RankPart& part);
std::shared_ptr<const kv::StaticRanges> part_of(std::shared_ptr<const kv::StaticRanges> whole,
                                                const RankPart& part);

}  // namespace kvick::engine
