#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

template <class Body>
void for_each_table(const Body& body) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    body(table(isa));
  }
}

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(n);
  for (float& e : x) e = normal(random);
  return x;
}

// The definition: element i of H x is the sum of x[j], negative where i and j share an odd number
// of bits.
std::vector<double> twin(const std::vector<float>& x, size_t block) {
  std::vector<double> out(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < block; ++j) {
      const double one = x[i / block * block + j];
      out[i] += std::popcount(i % block & j) % 2 == 0 ? one : -one;
    }
  for (double& e : out) e /= std::sqrt(static_cast<double>(block));
  return out;
}

constexpr size_t kBlocks[] = {32, 64, 128, 256, 512};

TEST(Hadamard, EqualsTheProductWithTheMatrix) {
  for_each_table([](const Table& table) {
    for (const size_t block : kBlocks) {
      std::vector<float> x = random_floats(3 * block, 1);
      const std::vector<double> expected = twin(x, block);
      table.hadamard(x.data(), x.size(), block);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_NEAR(x[i], expected[i], 1e-5) << block << " element " << i;
    }
  });
}

TEST(Hadamard, GivesTheSameBitsUnderEveryInstructionSet) {
  for (const size_t block : kBlocks) {
    const std::vector<float> x = random_floats(2 * block, 2);
    std::vector<float> expected = x;
    table(base::Isa::kScalar).hadamard(expected.data(), x.size(), block);
    for_each_table([&](const Table& table) {
      std::vector<float> own = x;
      table.hadamard(own.data(), own.size(), block);
      EXPECT_EQ(0, std::memcmp(own.data(), expected.data(), own.size() * sizeof(float))) << block;
    });
  }
}

TEST(Hadamard, TakesItselfBackAndKeepsProducts) {
  for_each_table([](const Table& table) {
    for (const size_t block : kBlocks) {
      const std::vector<float> q = random_floats(block, 3), k = random_floats(block, 4);
      std::vector<float> turned_q = q, turned_k = k;
      table.hadamard(turned_q.data(), block, block);
      table.hadamard(turned_k.data(), block, block);
      double product = 0, expected = 0;
      for (size_t i = 0; i < block; ++i) {
        product += double{turned_q[i]} * turned_k[i];
        expected += double{q[i]} * k[i];
      }
      EXPECT_NEAR(product, expected, 1e-4) << block;
      table.hadamard(turned_q.data(), block, block);
      for (size_t i = 0; i < block; ++i) ASSERT_NEAR(turned_q[i], q[i], 1e-5) << block;
    }
  });
}

TEST(Hadamard, SpreadsOneLargeElementOverItsBlock) {
  for_each_table([](const Table& table) {
    std::vector<float> x(128);
    x[77] = 8;
    table.hadamard(x.data(), 128, 64);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(x[i], 0);
    for (size_t i = 64; i < 128; ++i) EXPECT_EQ(std::abs(x[i]), 1);
  });
}

TEST(Hadamard, TakesBlocksThatArePowersOfTwoAndDivide) {
  for_each_table([](const Table& table) {
    std::vector<float> x(1024);
    for (const size_t block : {size_t{0}, size_t{16}, size_t{48}, size_t{96}, size_t{1024}})
      EXPECT_THROW(table.hadamard(x.data(), 1024, block), base::Bug) << block;
    EXPECT_THROW(table.hadamard(x.data(), 96, 64), base::Bug);
  });
}

}  // namespace
}  // namespace kvick::kernels
