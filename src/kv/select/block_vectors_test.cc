// Compares products with vectors in blocks with their definition.

#include "kv/select/block_vectors.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

#include "kv/testing/rows.h"

namespace kvick::kv {
namespace {

constexpr uint32_t kVectors = 600;  // more than are scored together

// Blocks with vectors of floats, rounded or stored as they are, behind some other bytes.
struct Rig {
  Rig(const kernels::Table& table, uint32_t dims, kernels::DType type, bool scaled,
      uint32_t per_block = 16)
      : vectors(
            table,
            {.per_block = per_block, .dims = dims, .type = type, .scaled = scaled, .offset = 64}) {
    std::mt19937 random(dims);
    std::normal_distribution<float> normal(0, scaled ? 1.0F : 30.0F);
    for (uint32_t i = 0; i < kVectors; i += per_block)
      blocks.push_back(SummaryBlock(new std::byte[64 + vectors.bytes()]));
    for (size_t i = 0; i < size_t{kVectors} * dims; ++i) made.push_back(normal(random));
    for (uint32_t i = 0; i < kVectors; ++i) put(i);
  }

  // Replaces `made` by what the block has.
  void put(uint32_t i) {
    const uint32_t dims = vectors.layout().dims, group = kernels::kQuadGroup;
    float* const values = &made[size_t{i} * dims];
    const uint32_t per_block = vectors.layout().per_block;
    std::byte* const block = blocks[i / per_block].get();
    if (!vectors.layout().scaled) {
      std::vector<std::byte> stored(dims * vectors.value_bytes());
      kernels::from_f32(vectors.layout().type, values, dims, stored.data());
      vectors.put(block, i % per_block, stored);
      kernels::to_f32(vectors.layout().type, stored.data(), dims, values);
      return;
    }
    vectors.round(block, i % per_block, {values, dims});
    for (uint32_t d = 0; d < dims; d += group) {
      float most = 0;
      for (uint32_t e = d; e < dims && e < d + group; ++e)
        most = std::max(most, std::abs(values[e]));
      const float scale = most / 127;
      for (uint32_t e = d; e < dims && e < d + group && most > 0; ++e)
        values[e] = std::nearbyint(values[e] / scale) * scale;
    }
  }

  std::vector<float> score(std::span<const kernels::Range> ranges, std::span<const float> queries,
                           size_t stride) {
    base::Arena scratch;
    std::vector<float> scores(queries.size() / vectors.layout().dims * stride, 77);
    vectors.score({.segment = {}, .blocks = blocks}, ranges, queries, scratch, scores.data(),
                  stride);
    return scores;
  }

  BlockVectors vectors;
  std::vector<SummaryBlock> blocks;
  std::vector<float> made;  // [kVectors][dims]
};

TEST(BlockVectors, MultiplyWithQueries) {
  for (const base::Isa isa : test::tried_isas())
    for (const auto& [dims, per_block] :
         {std::pair{6U, 16U}, {32, 512}, {40, 16}, {128, 64}, {640, 16}, {700, 16}, {700, 512}})
      for (const auto& [type, scaled] : {std::pair{kernels::DType::kStatic8, true},
                                         {kernels::DType::kStatic8, false},
                                         {kernels::DType::kF16, false}}) {
        Rig rig(kernels::table(isa), dims, type, scaled, per_block);
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        std::vector<float> queries(size_t{5} * dims);
        for (float& x : queries) x = normal(random);
        const std::vector<kernels::Range> ranges = {{1, 3},    {5, 40},    {47, 48},
                                                    {60, 130}, {140, 150}, {201, 590}};
        constexpr uint32_t kScored = 2 + 35 + 1 + 70 + 10 + 389;
        const std::vector<float> scores = rig.score(ranges, queries, kScored + 1);
        for (size_t q = 0; q < 5; ++q) {
          const float* next = &scores[q * (kScored + 1)];
          for (const kernels::Range& range : ranges)
            for (uint32_t i = range.begin; i < range.end; ++i) {
              double sum = 0, size = 0;
              for (uint32_t d = 0; d < dims; ++d) {
                const double product =
                    double{queries[q * dims + d]} * rig.made[i * size_t{dims} + d];
                sum += product, size += std::abs(product);
              }
              EXPECT_NEAR(*next++, sum, 3e-4 * size + 1e-6) << dims << " " << i;
            }
          EXPECT_EQ(*next, 77);
        }
      }
}

TEST(BlockVectors, RoundWithAScaleForEach32Dimensions) {
  Rig rig(test::tried_kernels(), 64, kernels::DType::kStatic8, true);
  // The second group is a thousandth of the first, and one vector is zero.
  for (uint32_t d = 0; d < 64; ++d) {
    rig.made[d] = (d < 32 ? 1000.0F : 1.0F) * (1 + static_cast<float>(d % 32) / 64);
    rig.made[64 + d] = 0;
  }
  const std::vector<float> before(rig.made.begin(), rig.made.begin() + 64);
  rig.put(0), rig.put(1);
  for (uint32_t d = 0; d < 64; ++d) {
    std::vector<float> query(64);
    query[d] = 1;
    const kernels::Range range = {0, 2};
    const std::vector<float> scores = rig.score({&range, 1}, query, 2);
    EXPECT_NEAR(scores[0], before[d], 0.5 / 127 * (d < 32 ? 1500 : 1.5)) << d;
    EXPECT_EQ(scores[1], 0);
  }
}

TEST(BlockVectors, KeepThatAVectorIsNotFinite) {
  for (const base::Isa isa : test::tried_isas())
    for (const float odd : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Rig rig(kernels::table(isa), 64, kernels::DType::kStatic8, true);
      std::vector<float> values(64, 1);
      values[40] = odd;
      rig.vectors.round(rig.blocks[0].get(), 3, values);
      const kernels::Range range = {2, 5};
      const std::vector<float> scores = rig.score({&range, 1}, std::vector<float>(64, 1), 3);
      EXPECT_TRUE(std::isfinite(scores[0]) && std::isfinite(scores[2]));
      EXPECT_TRUE(std::isnan(scores[1]));
    }
}

}  // namespace
}  // namespace kvick::kv
