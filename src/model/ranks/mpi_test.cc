// Ranks that mpirun has started on one machine: by messages, as between machines, and by shared
// memory.

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
  MessageRanks ranks(all, {.seconds = 60}, WireFormat::kF32);
  check_ranks(ranks);
}

std::vector<float> rounded(WireFormat format, std::vector<float> floats) {
  std::vector<std::byte> wire(wire_bytes(format, floats.size()));
  to_wire(format, floats, wire.data());
  from_wire(format, wire.data(), floats);
  return floats;
}

TEST(MpiRanks, AddWhatTheyHaveRounded) {
  for (const WireFormat format : {WireFormat::kBf16, WireFormat::kInt8}) {
    MPI_Comm all;
    MPI_Comm_dup(MPI_COMM_WORLD, &all);
    MessageRanks ranks(all, {.seconds = 60}, format);
    EXPECT_EQ(ranks.rounding(), wire_name(format));
    for (const size_t count : {1, 576, 4096, 4097, 300'000}) {
      const std::vector<float> own = random_part(ranks.rank(), count, 5);
      std::copy(own.begin(), own.end(), ranks.part(count));
      const float* const sum = ranks.sum();
      std::vector<float> expected = rounded(format, random_part(0, count, 5));
      for (unsigned r = 1; r < ranks.size(); ++r) {
        const std::vector<float> part = rounded(format, random_part(r, count, 5));
        for (size_t i = 0; i < count; ++i) expected[i] += part[i];
      }
      // Sums of slices are rounded again before they are sent back. Slices begin at multiples of a
      // group.
      if (ranks.size() > 2 && count > 4096) expected = rounded(format, expected);
      size_t wrong = 0;
      for (size_t i = 0; i < count; ++i) wrong += sum[i] != expected[i];
      EXPECT_EQ(wrong, 0u) << wire_name(format) << ": of " << count << " on rank " << ranks.rank();
    }
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
  auto start = kvick::model::start_mpi({.seconds = 60, .on_lost = {}});
  if (!start.ok()) return 1;
  kvick::model::shared = start->ranks.get();
  const int failed = RUN_ALL_TESTS();
  kvick::model::end_mpi();
  return failed;
}
