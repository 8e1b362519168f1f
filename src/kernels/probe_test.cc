#include "kernels/probe.h"

#include <gtest/gtest.h>

#include "base/check.h"
#include "base/memory.h"

namespace kvick::kernels {
namespace {

using base::Isa;

std::vector<Isa> supported() {
  std::vector<Isa> isas;
  for (const Isa isa : base::kIsas)
    if (base::isa_supported(isa)) isas.push_back(isa);
  return isas;
}

TEST(Probes, every_supported_set_says_what_it_is) {
  for (const Isa isa : base::kIsas) {
    if (base::isa_supported(isa))
      EXPECT_EQ(probes(isa).isa, isa);
    else
      EXPECT_THROW(probes(isa), base::Bug);
  }
}

TEST(Probes, reading_sums_every_word_once) {
  base::Buffer buffer(1 << 16);
  auto* words = buffer.as<uint64_t>();
  for (size_t i = 0; i < buffer.size() / 8; ++i) words[i] = i * 0x9e3779b97f4a7c15u;
  for (const size_t bytes : {size_t{0}, size_t{256}, size_t{768}, buffer.size()}) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 8; ++i) sum += words[i];
    for (const Isa isa : supported())
      EXPECT_EQ(probes(isa).read(buffer.data(), bytes), sum) << base::isa_name(isa);
  }
}

// Operations of one round: two for every lane of every accumulator, of int8 four products in each
// lane with VNNI, and in each of eight steps without, 64 in each of a tile's, 32 of bfloat16.
struct Round {
  Isa isa;
  uint64_t int8, f32, bf16_tiles;  // 0: no such probe
};
constexpr Round kRounds[] = {{Isa::kScalar, 2 * 32, 2 * 8 * 4, 0},
                             {Isa::kAvx2, 2 * 4 * 8 * 32, 2 * 12 * 8, 0},
                             {Isa::kAvx512, 2 * 4 * 8 * 64, 2 * 16 * 16, 0},
                             {Isa::kAvx512Vnni, 2 * 16 * 64, 2 * 16 * 16, 0},
                             {Isa::kAvx512Bf16, 2 * 16 * 64, 2 * 16 * 16, 0},
                             {Isa::kAmx, 2 * 4 * 256 * 64, 2 * 16 * 16, 2 * 4 * 256 * 32}};

TEST(Probes, count_the_operations_that_they_do) {
  for (const Round& round : kRounds) {
    if (!base::isa_supported(round.isa)) continue;
    const Probes& p = probes(round.isa);
    for (const uint32_t rounds : {0U, 1U, 1000U}) {
      EXPECT_EQ(p.int8_dot(rounds), rounds * round.int8) << base::isa_name(round.isa);
      EXPECT_EQ(p.f32_fma(rounds), rounds * round.f32) << base::isa_name(round.isa);
      if (round.bf16_tiles != 0)
        EXPECT_EQ(p.bf16_tiles(rounds), rounds * round.bf16_tiles) << base::isa_name(round.isa);
      else
        EXPECT_EQ(p.bf16_tiles, nullptr) << base::isa_name(round.isa);
    }
  }
}

TEST(Probes, count_exactly_up_to_the_most_rounds) {
  for (const Isa isa : supported()) {
    const Probes& p = probes(isa);
    EXPECT_EQ(p.int8_dot(kMostRounds), kMostRounds * p.int8_dot(1)) << base::isa_name(isa);
    EXPECT_EQ(p.f32_fma(kMostRounds), kMostRounds * p.f32_fma(1)) << base::isa_name(isa);
    if (p.bf16_tiles == nullptr) continue;
    for (const uint32_t rounds : {kMostRounds, kMostRounds - 1})
      EXPECT_EQ(p.bf16_tiles(rounds), rounds * p.bf16_tiles(1)) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::kernels
