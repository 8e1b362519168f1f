// A rank's part of a predictor predicts for its heads and layers what the whole one does.

#include "engine/artifacts/rank_part.h"

#include <gtest/gtest.h>
#include <random>

#include "base/cpu.h"

namespace kvick::engine {
namespace {

constexpr uint32_t kLayers = 5, kHeads = 6, kKvHeads = 3, kHeadDim = 32, kDim = 64, kRank = 4;

std::vector<float> random_floats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> floats(count);
  for (float& x : floats) x = normal(random);
  return floats;
}

std::shared_ptr<const kv::Predictor> made_predictor(kv::PredictorForm form) {
  auto made = std::make_shared<kv::Predictor>();
  made->shape = {.layers = kLayers,
                 .heads = kHeads,
                 .kv_heads = kKvHeads,
                 .head_dim = kHeadDim,
                 .dim = kDim,
                 .rank = form == kv::PredictorForm::kScores ? 1 : kRank,
                 .form = form};
  const kv::PredictorShape& shape = made->shape;
  if (form == kv::PredictorForm::kRandom) made->projection = {kDim, shape.projected(), 5};
  if (form == kv::PredictorForm::kTrained) made->frequency = {1, 0.1F};
  for (uint32_t i = 0; i < kLayers; ++i) {
    kv::PredictorLayer& layer = made->layers.emplace_back();
    const size_t of_head = size_t{shape.rank} * shape.inputs();
    if (shape.has_queries()) layer.q = random_floats(kHeads * of_head, 2 * i);
    layer.k = random_floats(kKvHeads * of_head, 2 * i + 1);
  }
  return made;
}

TEST(RankPart, OfAPredictorSaysWhatTheWholeSays) {
  const kernels::Table& kernels = kernels::table(base::best_isa());
  const std::vector<float> x = random_floats(kDim, 77);
  for (const kv::PredictorForm form :
       {kv::PredictorForm::kTrained, kv::PredictorForm::kHeads, kv::PredictorForm::kScores})
    for (const RankPart& part : {RankPart{.layers = kLayers, .kv_heads = {kKvHeads, 0, 2}},
                                 RankPart{.layers = kLayers, .kv_heads = {kKvHeads, 2, 3}},
                                 RankPart{.first_layer = 2, .layers = 3, .kv_heads = kKvHeads}}) {
      const auto whole = made_predictor(form);
      const auto made = part_of(whole, part);
      ASSERT_TRUE(made.ok()) << made.error().message;
      const kv::Predictor& own = **made;
      ASSERT_EQ(own.layers.size(), part.layers);
      EXPECT_EQ(own.shape.group(), whole->shape.group());
      EXPECT_EQ(own.frequency, whole->frequency);
      for (uint32_t layer = 0; layer < part.layers; ++layer) {
        const uint32_t of_model = part.first_layer + layer;
        if (form == kv::PredictorForm::kScores) {
          std::vector<float> all(kKvHeads), some(part.kv_heads.size);
          whole->scores(of_model, x.data(), kernels, all.data());
          own.scores(layer, x.data(), kernels, some.data());
          for (uint32_t h = 0; h < part.kv_heads.size; ++h)
            EXPECT_EQ(some[h], all[part.kv_heads.first + h]);
          continue;
        }
        std::vector<float> all(kRank), some(kRank);
        for (uint32_t h = 0; h < part.kv_heads.size; ++h) {
          whole->key(of_model, part.kv_heads.first + h, x.data(), kernels, all.data());
          own.key(layer, h, x.data(), kernels, some.data());
          EXPECT_EQ(some, all) << layer << " " << h;
        }
        const model::Slice heads = part.kv_heads.times(own.shape.group());
        for (uint32_t h = 0; h < heads.size; ++h) {
          whole->query(of_model, heads.first + h, x.data(), kernels, all.data());
          own.query(layer, h, x.data(), kernels, some.data());
          EXPECT_EQ(some, all) << layer << " " << h;
        }
      }
    }
}

TEST(RankPart, OfTheNumbersOfHeadsIsThoseOfItsHeads) {
  const auto whole = std::make_shared<kv::Predictor>(*made_predictor(kv::PredictorForm::kScores));
  whole->shape.form = kv::PredictorForm::kRetrieval;
  for (uint32_t layer = 0; layer < kLayers; ++layer)
    whole->layers[layer].k = random_floats(kKvHeads, layer);
  const auto own = part_of(whole, {.first_layer = 2, .layers = 3, .kv_heads = {kKvHeads, 1, 3}});
  ASSERT_TRUE(own.ok()) << own.error().message;
  ASSERT_EQ((*own)->layers.size(), 3u);
  EXPECT_EQ((*own)->shape.kv_heads, 2u);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const std::vector<float>& all = whole->layers[2 + layer].k;
    EXPECT_EQ((*own)->layers[layer].k, std::vector<float>(all.begin() + 1, all.end()));
  }
}

TEST(RankPart, OfADocumentIsTheScoresOfItsHeadsAndAllTokens) {
  const auto whole = std::make_shared<kv::Predictor>(*made_predictor(kv::PredictorForm::kScores));
  constexpr uint32_t kTokens = 7;
  whole->shape.form = kv::PredictorForm::kDocument;
  whole->shape.tokens = kTokens;
  whole->document = {1, 2, 3, 4, 5, 6, 7};
  for (uint32_t layer = 0; layer < kLayers; ++layer)
    whole->layers[layer].k = random_floats(kKvHeads * kTokens, layer);
  const auto own = part_of(whole, {.first_layer = 2, .layers = 3, .kv_heads = {kKvHeads, 1, 3}});
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_EQ((*own)->document, whole->document);
  EXPECT_EQ((*own)->shape.tokens, kTokens);
  ASSERT_EQ((*own)->layers.size(), 3u);
  for (uint32_t layer = 0; layer < 3; ++layer) {
    const std::vector<float>& all = whole->layers[2 + layer].k;
    EXPECT_EQ((*own)->layers[layer].k, std::vector<float>(all.begin() + kTokens, all.end()));
  }
}

TEST(RankPart, OfARandomProjectionIsSomeLayersAlone) {
  const auto whole = made_predictor(kv::PredictorForm::kRandom);
  const auto heads = part_of(whole, {.layers = kLayers, .kv_heads = {kKvHeads, 0, 2}});
  ASSERT_FALSE(heads.ok());
  EXPECT_NE(heads.error().message.find("use --pipeline"), std::string::npos);
  const auto layers = part_of(whole, {.first_layer = 4, .layers = 1, .kv_heads = kKvHeads});
  ASSERT_TRUE(layers.ok());
  EXPECT_EQ((*layers)->layers.front().k, whole->layers.back().k);
  // The part of everything is the predictor itself.
  EXPECT_EQ(*part_of(whole, {.layers = kLayers, .kv_heads = kKvHeads}), whole);
}

TEST(RankPart, OfRangesIsThoseOfItsHeads) {
  const auto whole = std::make_shared<const kv::StaticRanges>(
      kv::StaticRanges{.k = {0, 1, 2, 10, 11, 12, 20, 21, 22}, .v = {0, 1, 2, 3, 4, 5, 6, 7, 8}});
  const auto own = part_of(whole, {.first_layer = 1, .layers = 2, .kv_heads = {3, 1, 3}});
  EXPECT_EQ(own->k, (std::vector<float>{11, 12, 21, 22}));
  EXPECT_EQ(own->v, (std::vector<float>{4, 5, 7, 8}));
}

}  // namespace
}  // namespace kvick::engine
