#pragma once
// Ranks that were started by mpirun (Open MPI).

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/ranks/ranks.h"
#include "model/ranks/wire_format.h"

namespace kvick::model {

// How many processes mpirun has started with this one, as its environment says; 0: it was not
// started by mpirun.
unsigned ranks_started();

struct MpiOptions {
  double seconds = 30;                                  // WaitingOptions::seconds
  WireFormat format = WireFormat::kF32;                 // MessageRanks
  std::function<void(const std::string& why)> on_lost;  // WaitingOptions::on_lost
};

// The result of start_mpi(), which calls MPI_Init and may be called once. Ranks on one machine
// share memory, others send messages. warnings: sentences about how the ranks were started, for
// example two ranks on one core. Errors: kvick was built without MPI; MPI cannot start.
struct MpiStart {
  std::unique_ptr<Ranks> ranks;
  std::vector<std::string> warnings;  // on rank 0
  unsigned same_processors = 1;       // ranks allowed on this rank's processors, itself included
};
base::Result<MpiStart> start_mpi(const MpiOptions& options);

// Call once all ranks have been told to end; waits for them.
void end_mpi();
// Ends the other ranks too, within a second or so, whatever they do.
[[noreturn]] void abort_mpi(int status);

}  // namespace kvick::model
