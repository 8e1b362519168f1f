#include "model/ranks/mpi.h"

#ifdef KVICK_MPI
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <span>
#include <string_view>
#include <unistd.h>

#include "base/cores.h"
#include "model/ranks/message_ranks.h"
#include "model/ranks/shared_ranks.h"
#endif

namespace kvick::model {

unsigned ranks_started() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (size == nullptr) return 0;
  return static_cast<unsigned>(std::strtoul(size, nullptr, 10));
}

#ifdef KVICK_MPI
namespace {

// The host and the processors of a rank.
struct Place {
  char host[64] = {};
  pid_t pid = 0;
  int cpus = 0;   // number of processors that it may use
  int first = 0;  // the first of these processors
};

Place own_place() {
  Place place;
  gethostname(place.host, sizeof place.host - 1);
  place.pid = getpid();
  const std::vector<unsigned> processors = base::allowed_processors();
  if (processors.empty()) return place;
  place.cpus = static_cast<int>(processors.size());
  place.first = static_cast<int>(processors.front());
  return place;
}

// mpirun binds ranks to adjacent cores, so sets of processors are equal if they have the same size
// and begin.
bool same_processors(const Place& one, const Place& two) {
  return std::string_view(one.host) == two.host && one.cpus == two.cpus && one.first == two.first;
}

std::vector<std::string> warnings_of(std::span<const Place> places) {
  std::vector<std::string> warnings;
  for (size_t a = 0; a < places.size(); ++a)
    for (size_t b = a + 1; b < places.size(); ++b) {
      const Place& one = places[a];
      if (one.cpus == 1 && same_processors(one, places[b]))
        warnings.push_back(fmt::format(
            "ranks {} and {} are bound to the same core, {} of {}, and will wait for each other at "
            "each layer: start mpirun with --bind-to none",
            a, b, one.first, one.host));
    }
  return warnings;
}

// Checks whether a process of this machine still exists, which costs almost nothing.
std::function<std::string()> gone(std::vector<Place> places) {
  return [places = std::move(places)]() -> std::string {
    for (size_t r = 0; r < places.size(); ++r)
      if (kill(places[r].pid, 0) != 0 && errno == ESRCH)
        return fmt::format("rank {} (process {} of {}) has ended", r, places[r].pid,
                           places[r].host);
    return "";
  };
}

}  // namespace

base::Result<MpiStart> start_mpi(const MpiOptions& options) {
  // Without this flag, the receiver of a long message requests each piece of it, and the request
  // waits behind the data that the receiver itself is sending. Two ranks that began to exchange 1
  // MiB at the same moment (kvick network) then took turns: 20.6 ms at 1 Gb/s and 100 us instead of
  // 11.1 ms. Prompts, whose ranks begin at different moments, took equally long either way.
  setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", /*overwrite=*/0);
  // Messages longer than this limit wait until the receiver is ready for them. The parts of a
  // prompt's sums are longer than the default of 64 KiB. Prompts of SmolLM2, tokens/s with 64 KiB
  // and with 1 MiB: at 10 Gb/s and 500 us each way 772 and 1039, and 832 and 1860 with sums as
  // int8; in a pipeline at 1 Gb/s and 30 us, 2500 and 3160. The limit loses for sums as int8 at 1
  // Gb/s and 30 us: 1400 and 1070. The reason is unknown; it may be the forwarder of
  // tools/two_machines, which then works while a rank computes.
  for (const char* const limit :
       {"OMPI_MCA_btl_tcp_eager_limit", "OMPI_MCA_btl_tcp_rndv_eager_limit"})
    setenv(limit, "1048576", /*overwrite=*/0);
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return base::fail("MPI cannot start");
  if (provided < MPI_THREAD_SERIALIZED)
    return base::fail("this MPI cannot be called from several threads");
  MPI_Comm all, here;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  int rank = 0, size = 0, local = 0;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  MPI_Comm_size(here, &local);
  std::vector<Place> places(static_cast<size_t>(size));
  const Place own = own_place();
  MPI_Allgather(&own, sizeof own, MPI_BYTE, places.data(), sizeof own, MPI_BYTE, all);
  MpiStart start;
  if (rank == 0) start.warnings = warnings_of(places);
  start.same_processors = static_cast<unsigned>(std::ranges::count_if(
      places, [&](const Place& other) { return same_processors(own, other); }));
  WaitingOptions waiting = {.seconds = options.seconds, .gone = {}, .on_lost = options.on_lost};
  const auto ranks = static_cast<unsigned>(size);
  if (local < size) {
    start.ranks = std::make_unique<MessageRanks>(all, std::move(waiting), options.format);
    return start;
  }
  waiting.gone = gone(places);
  MPI_Win window;
  std::byte* region = nullptr;
  constexpr uintptr_t kLine = 64;
  const auto bytes = static_cast<MPI_Aint>(SharedRanks::region_bytes(ranks) + kLine);
  if (MPI_Win_allocate_shared(rank == 0 ? bytes : 0, 1, MPI_INFO_NULL, here, &region, &window) !=
      MPI_SUCCESS)
    return base::fail("no {} bytes of shared memory for {} ranks", bytes, size);
  int unit = 0;
  MPI_Aint length = 0;
  MPI_Win_shared_query(window, 0, &length, &unit, &region);
  // The region begins at the same offset in a page in all processes, so all align it alike.
  region += -reinterpret_cast<uintptr_t>(region) % kLine;
  MPI_Barrier(all);
  start.ranks =
      std::make_unique<SharedRanks>(region, static_cast<unsigned>(rank), ranks, std::move(waiting));
  return start;
}

void end_mpi() { MPI_Finalize(); }

void abort_mpi(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::_Exit(status);
}
#else
base::Result<MpiStart> start_mpi(const MpiOptions&) {
  return base::fail("this kvick was built without MPI: install libopenmpi-dev and build it again");
}

void end_mpi() {}

void abort_mpi(int status) { std::_Exit(status); }
#endif

}  // namespace kvick::model
