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

// Returns how many processes mpirun has started together with this one, according to the
// environment; 0: mpirun did not start it.
unsigned ranks_started();

struct MpiOptions {
  double seconds = 30;                                  // WaitingOptions::seconds
  WireFormat format = WireFormat::kF32;                 // MessageRanks
  std::function<void(const std::string& why)> on_lost;  // WaitingOptions::on_lost
};

// The result of start_mpi(), which calls MPI_Init and may be called once. Ranks on one machine
// share memory; ranks on several machines send messages. Errors: kvick was built without MPI; MPI
// cannot start.
struct MpiStart {
  std::unique_ptr<Ranks> ranks;
  // On rank 0: sentences about how the ranks were started, for example two ranks on one core.
  std::vector<std::string> warnings;
  unsigned same_processors = 1;  // ranks that may run on this rank's processors, including itself
};
base::Result<MpiStart> start_mpi(const MpiOptions& options);

// Call it once all ranks have been told to end; waits for them.
void end_mpi();
// Ends the other ranks too, within about a second, whatever they are doing.
[[noreturn]] void abort_mpi(int status);

}  // namespace kvick::model
