#include "engine/sampling/model_sampling.h"

#include <cmath>
#include <gtest/gtest.h>

#include "engine/sampling/sampler.h"
#include "io/file/builder.h"

namespace kvick::engine {
namespace {

io::ModelFile file_with(const io::Metadata& metadata) {
  io::ModelFileBuilder builder(io::Container::kGguf, "toy.gguf");
  builder.metadata() = metadata;
  return builder.finish();
}

io::Metadata all() {
  return {{"general.sampling.temp", {0.5}},
          {"general.sampling.top_k", {int64_t{20}}},
          {"general.sampling.top_p", {0.75}},
          {"general.sampling.min_p", {0.125}},
          {"general.sampling.penalty_repeat", {1.5}}};
}

TEST(ModelSampling, TakesWhatTheFileSaysAndNoMore) {
  const auto none = read_model_sampling(file_with({}));
  ASSERT_TRUE(none.ok());
  Sampling sampling;
  sampling.top_k = 7;
  apply_model_sampling(*none, {}, sampling);
  EXPECT_EQ(sampling.top_k, 7U);
  EXPECT_EQ(sampling.temperature, Sampling().temperature);

  const auto some = read_model_sampling(file_with(all()));
  ASSERT_TRUE(some.ok());
  apply_model_sampling(*some, {}, sampling);
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 20U);
  EXPECT_EQ(sampling.top_p, 0.75F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.repetition_penalty, 1.5F);
}

TEST(ModelSampling, LeavesWhatWasGiven) {
  const auto model = read_model_sampling(file_with(all()));
  ASSERT_TRUE(model.ok());
  Sampling sampling;
  sampling.temperature = 1, sampling.top_k = 3, sampling.repetition_penalty = 1;
  apply_model_sampling(*model, {.temperature = true, .top_k = true, .repetition_penalty = true},
                       sampling);
  EXPECT_EQ(sampling.temperature, 1);
  EXPECT_EQ(sampling.top_k, 3U);
  EXPECT_EQ(sampling.top_p, 0.75F);
  EXPECT_EQ(sampling.repetition_penalty, 1);
}

TEST(ModelSampling, DoesNotPenaliseGreedyAnswers) {
  const auto model = read_model_sampling(file_with(all()));
  ASSERT_TRUE(model.ok());
  Sampling sampling;
  sampling.temperature = 0;
  apply_model_sampling(*model, {.temperature = true}, sampling);
  EXPECT_EQ(sampling.repetition_penalty, 1);
}

TEST(ModelSampling, KeepsAllTokensForATopKOfZeroOrLess) {
  for (const int64_t top_k : {-1, 0}) {
    const auto model = read_model_sampling(file_with({{"general.sampling.top_k", {top_k}}}));
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(model->top_k, 0U);
  }
}

TEST(ModelSampling, TakesATopPOfZeroForTheLikeliestTokenAlone) {
  const auto model = read_model_sampling(file_with({{"general.sampling.top_p", {0.0}}}));
  ASSERT_TRUE(model.ok());
  Sampling sampling;
  sampling.temperature = 1;
  sampling.top_k = 0;
  apply_model_sampling(*model, {.temperature = true, .top_k = true}, sampling);
  EXPECT_GT(sampling.top_p, 0);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    sampling.seed = seed;
    std::vector<float> logits = {0.1F, 0.2F, 0.15F};
    EXPECT_EQ(Sampler(sampling, kernels::table(base::Isa::kScalar)).choose(logits), 1);
  }
}

TEST(ModelSampling, NamesTheKeyOfAValueOutsideItsRange) {
  const auto error = [](const char* key, io::Value value) {
    const auto model = read_model_sampling(file_with({{key, std::move(value)}}));
    return model.ok() ? std::string("none") : model.error().message;
  };
  EXPECT_EQ(error("general.sampling.top_p", {1.5}),
            "toy.gguf: key general.sampling.top_p is 1.5, which cannot be sampled with; it must be "
            "at least 0 and at most 1");
  EXPECT_NE(error("general.sampling.temp", {-1.0}).find("at least 0"), std::string::npos);
  EXPECT_NE(error("general.sampling.min_p", {std::nan("")}).find("min_p"), std::string::npos);
  EXPECT_NE(error("general.sampling.penalty_repeat", {0.001}).find("at least 0.01 and at most 100"),
            std::string::npos);
  EXPECT_NE(error("general.sampling.penalty_repeat", {std::string("x")}).find("a number"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::engine
