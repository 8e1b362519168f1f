#pragma once
// A model that several processes, its ranks, run together (model/ranks/ranks.h). Each rank has an
// engine over its share of the weights. For each store of rank 0, every other rank has one too.

#include <functional>
#include <memory>
#include <string>

#include "engine/core/engine.h"
#include "model/ranks/ranks.h"

namespace kvick::engine {

// Called once by every rank, with its engine or the error of opening it. Rank 0 returns the error
// of the first rank that failed; the others report theirs to rank 0.
base::Status<> agree_on_opening(model::Ranks& ranks, base::Result<std::unique_ptr<Engine>>& own);

// Called by rank 0: makes a store like `own` on every other rank and returns one over all of them.
// Error: a rank could not make its store.
base::Result<std::unique_ptr<kv::Store>> spread_store(model::Ranks& ranks,
                                                      const KvOptions& resolved,
                                                      std::unique_ptr<kv::Store> own);

// Called by the other ranks: follows the orders of rank 0 until it has no more. report: gets a
// sentence for each step that this rank could not compute. Throws model::RankLost.
void follow(const Engine& engine, std::function<void(const std::string&)> report);

}  // namespace kvick::engine
