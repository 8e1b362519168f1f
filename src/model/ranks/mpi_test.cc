// Ranks that mpirun has started, on one machine: by messages, as between machines, and by memory
// that they share.

#include "model/ranks/mpi.h"

#include <cstdlib>
#include <mpi.h>

#include "model/ranks/message_ranks.h"
#include "model/ranks/test_ranks.h"

namespace kvick::model {
namespace {

TEST(MpiRanks, AddAndTalkByMessages) {
  MPI_Comm all;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MessageRanks ranks(all, {.seconds = 60});
  check_ranks(ranks);
}

Ranks* shared = nullptr;
TEST(MpiRanks, AddAndTalkBySharedMemory) {
  ASSERT_EQ(shared->size(), ranks_started());
  check_ranks(*shared);
}

}  // namespace
}  // namespace kvick::model

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  auto start = kvick::model::start_mpi({.seconds = 60, .on_lost = {}});
  if (!start.ok()) return 1;
  kvick::model::shared = start->ranks.get();
  const int failed = RUN_ALL_TESTS();
  kvick::model::end_mpi();
  return failed;
}
