#include "model/core/share.h"

#include <gtest/gtest.h>

namespace kvick::model {
namespace {

Config config_with(uint32_t heads, uint32_t kv_heads, uint32_t head_dim, uint32_t ffn) {
  Config config;
  config.dim = heads * head_dim;
  config.vocab = 1000;
  LayerConfig layer = LayerConfig::attention(heads, kv_heads, head_dim);
  layer.ffn = ffn;
  config.layers.assign(3, layer);
  return config;
}

double weights(const Config& config, const Share& share) {
  const LayerConfig mine = config_of(config, share).layers[0];
  return double{1} * config.dim *
         (mine.q_floats() + mine.k_floats() + mine.v_floats() + mine.out_floats() + 3.0 * mine.ffn);
}

TEST(Share, OfAllRanksTogetherIsTheModel) {
  for (const uint32_t kv_heads : {3U, 4U, 8U, 13U})
    for (unsigned ranks = 1; ranks <= std::min(kv_heads, 7U); ++ranks) {
      const Config config = config_with(3 * kv_heads, kv_heads, 32, 32 * 41);
      const std::vector<FfnShape> ffn(3, {.unit = 32});
      uint32_t head = 0, width = 0, row = 0;
      double most = 0, all = 0;
      for (unsigned rank = 0; rank < ranks; ++rank) {
        const auto share = share_of(config, ffn, rank, ranks);
        ASSERT_TRUE(share.ok()) << share.error().message;
        EXPECT_EQ(share->adds_biases, rank == 0);
        for (const LayerShare& layer : share->layers) {
          EXPECT_EQ(layer.kv_heads.first, head);
          EXPECT_EQ(layer.ffn.first, width);
          EXPECT_EQ(layer.ffn.size % 32, 0u);
          EXPECT_GT(layer.kv_heads.size, 0u);
          EXPECT_GT(layer.ffn.size, 0u);
        }
        EXPECT_EQ(share->vocab.first, row);
        head += share->layers[0].kv_heads.size;
        width += share->layers[0].ffn.size;
        row += share->vocab.size;
        most = std::max(most, weights(config, *share));
        all += weights(config, *share);
        const Config mine = config_of(config, *share);
        EXPECT_EQ(mine.layers[0].heads, 3 * share->layers[0].kv_heads.size);
        EXPECT_EQ(mine.layers[0].group(), 3u);
      }
      EXPECT_EQ(head, kv_heads);
      EXPECT_EQ(width, 32u * 41);
      EXPECT_EQ(row, config.vocab);
      EXPECT_EQ(all, weights(config, whole_share(config)));
      // No rank waits for another, but for a unit of the width.
      EXPECT_LE(most, all / ranks + 3.0 * 32 * config.dim) << kv_heads << " heads, " << ranks;
    }
}

TEST(Share, ThatCannotBeIsSaidInOneLine) {
  const auto error = [](const Config& config, unsigned ranks, uint32_t unit = 32) {
    const auto share = share_of(config, std::vector<FfnShape>(3, {.unit = unit}), 0, ranks);
    return share.ok() ? "" : share.error().message;
  };
  EXPECT_EQ(error(config_with(9, 3, 32, 96), 3), "");
  EXPECT_NE(error(config_with(9, 3, 32, 96), 4).find("start at most 3"), std::string::npos);
  EXPECT_NE(error(config_with(9, 3, 32, 96), 3, 64).find("multiples of 64"), std::string::npos);
  EXPECT_NE(error(config_with(9, 3, 32, 32), 2).find("multiples of 32"), std::string::npos);
  Config slots = config_with(4, 4, 32, 96);
  slots.layers[1].kind = LayerConfig::Kind::kSlots;
  EXPECT_NE(error(slots, 2).find("one rank"), std::string::npos);
}

}  // namespace
}  // namespace kvick::model
