// Ranks that mpirun has started, on one machine: by messages, as between machines, and by memory
// that they share.

#include "model/ranks/mpi.h"

#include <cstdlib>
#include <mpi.h>

#include "kernels/formats/dtype.h"
#include "model/ranks/message_ranks.h"
#include "model/ranks/test_ranks.h"

namespace kvick::model {
namespace {

TEST(MpiRanks, AddAndTalkByMessages) {
  MPI_Comm all;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MessageRanks ranks(all, {.seconds = 60}, false);
  check_ranks(ranks);
}

TEST(MpiRanks, AddWhatTheyHaveRounded) {
  MPI_Comm all;
  MPI_Comm_dup(MPI_COMM_WORLD, &all);
  MessageRanks ranks(all, {.seconds = 60}, true);
  for (const size_t count : {1, 576, 4096, 4097, 300'000}) {
    const auto part_of = [&](unsigned rank) {
      std::vector<float> part = random_part(rank, count, 5);
      for (float& x : part) x = kernels::bf16_to_f32(kernels::f32_to_bf16(x));
      return part;
    };
    const std::vector<float> own = random_part(ranks.rank(), count, 5);
    std::copy(own.begin(), own.end(), ranks.part(count));
    const float* const sum = ranks.sum();
    std::vector<float> expected = part_of(0);
    for (unsigned r = 1; r < ranks.size(); ++r) {
      const std::vector<float> part = part_of(r);
      for (size_t i = 0; i < count; ++i) expected[i] += part[i];
    }
    // Slices are rounded once more, on their way back.
    const bool slices = ranks.size() > 2 && count > 4096;
    size_t wrong = 0;
    for (size_t i = 0; i < count; ++i) {
      const float x = expected[i];
      wrong += sum[i] != (slices ? kernels::bf16_to_f32(kernels::f32_to_bf16(x)) : x);
    }
    EXPECT_EQ(wrong, 0u) << "of " << count << " on rank " << ranks.rank();
  }
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
  auto start = kvick::model::start_mpi({.seconds = 60, .rounded = false, .on_lost = {}});
  if (!start.ok()) return 1;
  kvick::model::shared = start->ranks.get();
  const int failed = RUN_ALL_TESTS();
  kvick::model::end_mpi();
  return failed;
}
