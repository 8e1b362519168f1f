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
  unsigned threads = 0;                 // default number of compute threads in this process
};

// Joins this process with the others. When the last owner releases the ranks, they are told to end.
// Errors: MPI is missing; a second model in one process; mpirun has started several processes
// without --ranks.
base::Result<RankStart> start_ranks(const EngineFlags& flags, const Common& common);
// Returns the number of processes that mpirun has started on this machine; 1 without mpirun.
unsigned ranks_on_this_machine();
// Returns whether this process will follow rank 0.
bool will_follow(const EngineFlags& flags);

// Agrees with the other ranks on whether all could open the model. Returns the engine on rank 0. On
// the others it follows rank 0 and then ends the process. Only the engine and the caller may own
// the ranks.
base::Result<std::unique_ptr<engine::Engine>> join_ranks(
    std::shared_ptr<model::Ranks>& ranks, base::Result<std::unique_ptr<engine::Engine>> engine);

}  // namespace kvick::cli
