#pragma once
// --ranks: the processes that mpirun has started run one model together.

#include <memory>

#include "base/result.h"
#include "cli/options/command.h"
#include "cli/options/engine_options.h"
#include "engine/core/engine.h"

namespace kvick::cli {

struct RankStart {
  std::shared_ptr<model::Ranks> ranks;  // null: this process alone
  unsigned threads = 0;                 // that compute here, if nothing else was asked for
};

// Joins this process with the others. The last owner of the ranks tells them that there is nothing
// more to do. Errors: MPI is not there; a second
// model of one process; mpirun has started several processes, but not with --ranks.
base::Result<RankStart> start_ranks(const EngineFlags& flags, const Common& common);
// Processes that mpirun has started on this machine; 1 without it.
unsigned ranks_on_this_machine();
// Whether this process will follow another one.
bool will_follow(const EngineFlags& flags);

// Agrees with the others on whether all could open the model. On rank 0 returns what was opened; on
// others does what rank 0 says and then ends the process; only the engine may own the ranks beside
// the caller.
base::Result<std::unique_ptr<engine::Engine>> join_ranks(
    std::shared_ptr<model::Ranks>& ranks, base::Result<std::unique_ptr<engine::Engine>> engine);

}  // namespace kvick::cli
