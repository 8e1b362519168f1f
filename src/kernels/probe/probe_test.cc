#include "kernels/probe/probe.h"

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

// Operations of one round, two per product in every lane of every accumulator. An int8 lane has
// four products with VNNI, and four in each of eight steps without; a tile's lane has 64, or 32 of
// bfloat16.
struct Round {
  Isa isa;
  uint64_t int8, f32, bf16, bf16_tiles;  // 0: no such probe
};
constexpr Round kRounds[] = {
    {Isa::kScalar, 2 * 32, 2 * 8 * 4, 0, 0},
    {Isa::kAvx2, 2 * 4 * 8 * 32, 2 * 12 * 8, 0, 0},
    {Isa::kAvxVnni, 2 * 12 * 32, 2 * 12 * 8, 0, 0},
    {Isa::kAvx512, 2 * 4 * 8 * 64, 2 * 16 * 16, 0, 0},
    {Isa::kAvx512Vnni, 2 * 16 * 64, 2 * 16 * 16, 0, 0},
    {Isa::kAvx512Bf16, 2 * 16 * 64, 2 * 16 * 16, 2 * 16 * 32, 0},
    {Isa::kAmx, 2 * 4 * 256 * 64, 2 * 16 * 16, 2 * 16 * 32, 2 * 4 * 256 * 32},
    {Isa::kNeonDot, 2 * 16 * 16, 2 * 16 * 4, 0, 0},
    {Isa::kNeonI8mm, 2 * 16 * 32, 2 * 16 * 4, 0, 0}};

void expect_rounds(uint64_t (*probe)(uint32_t), uint32_t rounds, uint64_t of_one, Isa isa) {
  ASSERT_EQ(probe != nullptr, of_one != 0) << base::isa_name(isa);
  if (probe == nullptr) return;
  EXPECT_EQ(probe(rounds), rounds * of_one) << base::isa_name(isa);
}

TEST(Probes, count_the_operations_that_they_do) {
  for (const Round& round : kRounds) {
    if (!base::isa_supported(round.isa)) continue;
    const Probes& p = probes(round.isa);
    for (const uint32_t rounds : {0U, 1U, 1000U}) {
      expect_rounds(p.int8_dot, rounds, round.int8, round.isa);
      expect_rounds(p.f32_fma, rounds, round.f32, round.isa);
      expect_rounds(p.bf16_dot, rounds, round.bf16, round.isa);
      expect_rounds(p.bf16_tiles, rounds, round.bf16_tiles, round.isa);
    }
  }
}

TEST(Probes, count_exactly_up_to_the_most_rounds) {
  for (const Isa isa : supported()) {
    const Probes& p = probes(isa);
    EXPECT_EQ(p.int8_dot(kMostRounds), kMostRounds * p.int8_dot(1)) << base::isa_name(isa);
    EXPECT_EQ(p.f32_fma(kMostRounds), kMostRounds * p.f32_fma(1)) << base::isa_name(isa);
    if (p.bf16_dot != nullptr) {
      EXPECT_EQ(p.bf16_dot(kMostRounds), kMostRounds * p.bf16_dot(1)) << base::isa_name(isa);
    }
    if (p.bf16_tiles == nullptr) continue;
    for (const uint32_t rounds : {kMostRounds, kMostRounds - 1})
      EXPECT_EQ(p.bf16_tiles(rounds), rounds * p.bf16_tiles(1)) << base::isa_name(isa);
  }
}

// A clock that the pretended probes advance, at the rates that are set here.
double g_now = 0;
double g_f32_rate = 0, g_bf16_rate = 0;
int g_disturbed = 0;  // 1: four of five pieces take ten times as long
uint64_t pretend(uint32_t rounds, double rate) {
  static int piece = 0;
  g_now += rounds / rate * (g_disturbed != 0 && ++piece % 5 != 0 ? 10 : 1);
  return rounds;
}

TEST(ProductsOfBf16, pay_from_one_and_a_half_times_the_rate_of_float32_on) {
  const Probes p = {.isa = Isa::kScalar,
                    .read = nullptr,
                    .int8_dot = nullptr,
                    .f32_fma = [](uint32_t rounds) { return pretend(rounds, g_f32_rate); },
                    .bf16_dot = [](uint32_t rounds) { return pretend(rounds, g_bf16_rate); },
                    .bf16_tiles = nullptr};
  const auto pay = [&](double times) {
    g_f32_rate = 1e9;
    g_bf16_rate = times * g_f32_rate;
    return products_of_bf16_pay(p, [] { return g_now; });
  };
  for (g_disturbed = 0; g_disturbed < 2; ++g_disturbed) {
    EXPECT_TRUE(pay(2));
    EXPECT_TRUE(pay(1.51));
    EXPECT_FALSE(pay(1.49));
    EXPECT_FALSE(pay(0.5));
  }
}

TEST(ProductsOfBf16, do_not_pay_where_there_are_none) {
  EXPECT_FALSE(products_of_bf16_pay(probes(Isa::kScalar)));
}

}  // namespace
}  // namespace kvick::kernels
