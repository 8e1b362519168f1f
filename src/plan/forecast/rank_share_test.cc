#include "plan/forecast/rank_share.h"

#include <gtest/gtest.h>

#include "kv/registry/registry.h"

namespace kvick::plan {
namespace {

TEST(Network, IsARateAndALatency) {
  const auto network = parse_network("10Gb/s,30us");
  ASSERT_TRUE(network.ok()) << network.error().message;
  EXPECT_DOUBLE_EQ(network->bits_s, 1e10);
  EXPECT_DOUBLE_EQ(network->latency_s, 30e-6);
  EXPECT_DOUBLE_EQ(parse_network("0.5Gb/s,1.5ms")->bits_s, 5e8);
  for (const char* wrong : {"", "10Gb/s", "10Gb/s,", "10,30us", "0Gb/s,30us", "-1Gb/s,30us",
                            "10Gb/s,30", "nanGb/s,30us", "10Gb/s,30us,", "Gb/s,us"})
    EXPECT_FALSE(parse_network(wrong).ok()) << wrong;
}

TEST(Network, TakesTwoSumsALayerAndTheMessagesOfAStep) {
  model::Config config;
  config.dim = 1000;
  config.vocab = 10000;
  config.layers.resize(4);
  const Network network = {.bits_s = 1e9, .latency_s = 1e-3};
  // 8 sums and 3 messages of a millisecond; 1000 floats are 32 us.
  EXPECT_NEAR(network_s(config, 2, network, 1, 0), 8 * (1e-3 + 32e-6) + 3e-3, 1e-9);
  // As int8 they are 1,000 bytes and 32 scales of two.
  Network rounded = network;
  rounded.format = model::WireFormat::kInt8;
  EXPECT_NEAR(network_s(config, 2, rounded, 1, 0), 8 * (1e-3 + 8.512e-6) + 3e-3, 1e-9);
  // Half of the logits come from the other rank.
  EXPECT_NEAR(network_s(config, 2, network, 1, 1) - network_s(config, 2, network, 1, 0),
              1e-3 + 160e-6, 1e-9);
  // With four ranks, each adds up a quarter.
  EXPECT_NEAR(network_s(config, 4, network, 100, 0), 8 * 2 * (1e-3 + 0.75 * 3.2e-3) + 3e-3, 1e-9);
}

TEST(Network, OfAPipelineHandsEachPieceOnAndReturnsLogits) {
  model::Config config;
  config.dim = 1000;
  config.vocab = 10000;
  const Network network = {.bits_s = 1e9, .latency_s = 1e-3};
  const std::vector<double> stages = {0.5, 0.25, 0.25};
  // 1000 floats are 32 us. One piece: all layers, two hops, three messages and the way back.
  const PiecesOfStep one = {.pieces = 1, .tokens = 1, .layers_s = 0.4, .output_s = 0.05};
  EXPECT_NEAR(pipeline_s(config, stages, network, one, 0), 0.45 + 2 * (1e-3 + 32e-6) + 4e-3, 1e-9);
  EXPECT_NEAR(
      pipeline_s(config, stages, network, one, 2) - pipeline_s(config, stages, network, one, 0),
      2 * 320e-6, 1e-9);
  // Each further piece takes the time of the first rank, which has the most layers.
  PiecesOfStep four = one;
  four.pieces = 4;
  EXPECT_NEAR(
      pipeline_s(config, stages, network, four, 0) - pipeline_s(config, stages, network, one, 0),
      3 * (0.2 + 32e-6), 1e-9);
}

TEST(StagesOf, AreTheLayersOfEachRank) {
  const auto whole = parse_shape("layers=6,heads=8,kv_heads=4,head_dim=32,vocab=64,context=512");
  ASSERT_TRUE(whole.ok());
  const auto stages = stages_of(*whole, 3);
  ASSERT_TRUE(stages.ok()) << stages.error().message;
  EXPECT_EQ(*stages, std::vector<double>(3, 1.0 / 3));
  EXPECT_FALSE(stages_of(*whole, 7).ok());
}

TEST(SizeOfShare, IsMeasuredAsTheModelOfARank) {
  const auto whole = parse_shape("layers=4,heads=8,kv_heads=4,head_dim=32,vocab=512,context=512");
  ASSERT_TRUE(whole.ok());
  const auto share = size_of_share(*whole, 2);
  ASSERT_TRUE(share.ok()) << share.error().message;
  EXPECT_EQ(share->config.layers[0].kv_heads, 2u);
  EXPECT_EQ(share->layers[0].weights, whole->layers[0].weights / 2);
  EXPECT_FALSE(size_of_share(*whole, 5).ok());

  base::ThreadPool pool(1);
  const kernels::Table& kernels = kernels::table(base::best_isa());
  const auto ranks = lone_rank(2);
  const auto sample = make_sample(*share, 3, pool, kernels, ranks.get());
  ASSERT_TRUE(sample.ok()) << sample.error().message;
  EXPECT_EQ(sample->model->config().layers[0].heads, 4u);
  const auto all = make_sample(*whole, 3, pool, kernels);
  EXPECT_NEAR(static_cast<double>(sample->model->weights().layers.bytes),
              static_cast<double>(all->model->weights().layers.bytes) / 2,
              0.05 * static_cast<double>(all->model->weights().layers.bytes));
}

}  // namespace
}  // namespace kvick::plan
