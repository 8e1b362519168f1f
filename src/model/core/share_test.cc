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
      // The work is even, up to one unit of the width.
      EXPECT_LE(most, all / ranks + 3.0 * 32 * config.dim) << kv_heads << " heads, " << ranks;
    }
}

TEST(Share, OfAMixtureHasSomeOfEachExpert) {
  Config config = config_with(8, 4, 32, 0);
  config.layers[1].experts = {.count = 16, .used = 3, .ffn = 320, .shared_ffn = 96};
  config.layers[1].ffn = 0;
  config.layers[0].ffn = config.layers[2].ffn = 640;
  const std::vector<FfnShape> ffn(3, {.unit = 32, .shared_unit = 32});
  for (const unsigned ranks : {1U, 2U, 4U}) {
    uint32_t width = 0, shared = 0;
    double most = 0, all = 0;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      const auto share = share_of(config, ffn, rank, ranks);
      ASSERT_TRUE(share.ok()) << share.error().message;
      const LayerShare& layer = share->layers[1];
      EXPECT_EQ(layer.ffn.whole, 320u);
      EXPECT_EQ(layer.ffn.first, width);
      EXPECT_EQ(layer.shared_ffn.first, shared);
      EXPECT_EQ(layer.shared_ffn.size % 32, 0u);
      EXPECT_GT(layer.ffn.size, 0u);
      width += layer.ffn.size;
      shared += layer.shared_ffn.size;
      const Config mine = config_of(config, *share);
      EXPECT_EQ(mine.layers[1].experts.ffn, layer.ffn.size);
      EXPECT_EQ(mine.layers[1].experts.shared_ffn, layer.shared_ffn.size);
      EXPECT_EQ(mine.layers[1].experts.count, 16u);
      const LayerConfig& own = mine.layers[1];
      const double met = double{1} * config.dim *
                         (own.q_floats() + own.k_floats() + own.v_floats() + own.out_floats() +
                          3.0 * (3 * own.experts.ffn + own.experts.shared_ffn));
      most = std::max(most, met);
      all += met;
    }
    EXPECT_EQ(width, 320u);
    EXPECT_EQ(shared, 96u);
    // The work is even, up to one unit of each expert that a token uses.
    EXPECT_LE(most, all / ranks + 3.0 * 3 * 32 * config.dim) << ranks;
  }
  const auto narrow = share_of(config, std::vector<FfnShape>(3, {.unit = 160}), 0, 4);
  ASSERT_FALSE(narrow.ok());
  EXPECT_NE(narrow.error().message.find("width of the experts of layer 1, 320"), std::string::npos)
      << narrow.error().message;
  EXPECT_NE(narrow.error().message.find("--pipeline"), std::string::npos);
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
  EXPECT_NE(error(slots, 2).find("runs in one process"), std::string::npos);
}

TEST(Stage, OfAllRanksTogetherIsTheModel) {
  for (const uint32_t layers : {4U, 17U, 30U})
    for (const uint32_t vocab : {100U, 50'000U})
      for (unsigned ranks = 1; ranks <= 4; ++ranks) {
        Config config = config_with(8, 4, 32, 512);
        config.vocab = vocab;
        config.layers.assign(layers, config.layers[0]);
        const std::vector<FfnShape> ffn(layers);
        const double layer = weights(config, whole_share(config));
        const double output = double{1} * config.dim * vocab;
        uint32_t next = 0;
        for (unsigned rank = 0; rank < ranks; ++rank) {
          const auto share = stage_of(config, ffn, rank, ranks);
          ASSERT_TRUE(share.ok()) << share.error().message;
          EXPECT_EQ(share->first_layer, next);
          next += static_cast<uint32_t>(share->layers.size());
          EXPECT_EQ(share->embeds, rank == 0);
          EXPECT_EQ(share->vocab.size, rank + 1 == ranks ? vocab : 0);
          EXPECT_EQ(config_of(config, *share).layer_count(), share->layers.size());
          // Each rank has about as many weights, or only one layer.
          const double mine =
              layer * static_cast<double>(share->layers.size()) + (rank + 1 == ranks ? output : 0);
          const double even = (layer * layers + output) / ranks;
          EXPECT_TRUE(mine < even + 1.1 * layer || share->layers.size() == 1)
              << layers << " layers, vocabulary " << vocab << ", rank " << rank << " of " << ranks;
        }
        EXPECT_EQ(next, layers);
      }
}

TEST(Stage, KeepsLayersTogetherThatReadTheSameRows) {
  Config config = config_with(8, 4, 32, 512);
  config.vocab = 32;
  config.layers.assign(8, config.layers[0]);
  config.layers[5].rows_of = 2;
  const std::vector<FfnShape> ffn(8);
  const auto cut_at = [&](unsigned ranks, unsigned rank) {
    const auto share = stage_of(config, ffn, rank, ranks);
    return share.ok() ? share->first_layer : 0;
  };
  const uint32_t cut = cut_at(2, 1);  // not 3, 4 or 5
  EXPECT_TRUE(cut == 2 || cut == 6) << cut;
  const auto behind = stage_of(config, ffn, 1, 4);
  ASSERT_TRUE(behind.ok());
  config.layers[7].rows_of = 0;
  const auto none = stage_of(config, ffn, 0, 2);
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("start at most 1"), std::string::npos)
      << none.error().message;
  config.layers[7].rows_of = LayerConfig::kNone;
  config.layers[1].rows_of = 0;
  const auto stage = stage_of(config, ffn, 1, 2);
  ASSERT_TRUE(stage.ok());
  if (stage->first_layer == 2) {
    EXPECT_EQ(config_of(config, *stage).layers[3].rows_of, 0u);
  }
}

}  // namespace
}  // namespace kvick::model
