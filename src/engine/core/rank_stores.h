#pragma once
// An engine whose model several processes run together (model/ranks/ranks.h): each has an engine of
// its own over its share of the weights, and each store of rank 0 has one on every other rank.

#include <memory>

#include "engine/core/engine.h"
#include "model/ranks/ranks.h"

namespace kvick::engine {

// Rank 0: whether all ranks have opened their share. Others: answers what rank 0 asks there. Once,
// by all ranks, each with its engine or why it has none. Error: of the first rank that could not.
base::Status<> agree_on_opening(model::Ranks& ranks, base::Result<std::unique_ptr<Engine>>& own);

// Rank 0: `own`, and one like it on every other rank. Error: a rank could not make it.
base::Result<std::unique_ptr<kv::Store>> spread_store(model::Ranks& ranks,
                                                      const KvOptions& resolved,
                                                      std::unique_ptr<kv::Store> own);

// Others: does what rank 0 says until there is nothing more to do. Throws model::RankLost.
void follow(const Engine& engine);

}  // namespace kvick::engine
