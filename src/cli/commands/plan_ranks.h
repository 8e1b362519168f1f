#pragma once
// What kvick plan predicts for several machines like this one: one model divided over all of them,
// or a copy on each.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/commands/plan_report.h"
#include "plan/forecast/rank_share.h"

namespace kvick::cli {

struct RankQuestion {
  unsigned ranks = 1;
  plan::Network network;
};

// Measures rank 0's share of the model on this machine. The report must be filled in. Errors: a
// model that cannot be divided over that number of ranks, no room.
base::Result<PlannedRanks> plan_ranks(base::ThreadPool& pool, const kernels::Table& kernels,
                                      const RankQuestion& question, const PlanReport& report);

nlohmann::ordered_json ranks_json(const PlannedRanks& ranks);
std::string ranks_text(const PlannedRanks& ranks, const PlanReport& report);
std::string ranks_advice(const PlannedRanks& ranks, const PlanReport& report);

}  // namespace kvick::cli
