#include "engine/eval/speed.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

double g_now = 0;
// A clock that advances by one second each time it is read.
double ticking() { return g_now += 1; }

SpeedOptions two_rounds(uint64_t max_bytes = UINT64_MAX) {
  SpeedOptions options;
  options.repeats = 2;
  options.clock = ticking;
  options.kv.max_bytes = max_bytes;
  return options;
}

constexpr Case kPrompt = {Phase::kPrefill, 40, 5, 1}, kAnswers = {Phase::kDecode, 10, 5, 3};

std::string refusal(Engine& engine, const std::vector<Case>& cases) {
  return measure_speed(engine, cases, two_rounds()).error().message;
}

TEST(Cases, AreEveryPromptAndEveryDecodeButNotTheirProduct) {
  const Sweep sweep = {
      .prompts = {64, 512}, .decodes = {16}, .depths = {0, 9}, .parallels = {1, 4}};
  const std::vector<Case> expected = {{Phase::kPrefill, 64, 0, 1},  {Phase::kPrefill, 64, 9, 1},
                                      {Phase::kPrefill, 512, 0, 1}, {Phase::kPrefill, 512, 9, 1},
                                      {Phase::kDecode, 16, 0, 1},   {Phase::kDecode, 16, 9, 1},
                                      {Phase::kDecode, 16, 0, 4},   {Phase::kDecode, 16, 9, 4}};
  EXPECT_EQ(cases_of(sweep), expected);
}

TEST(Cases, AreOnlyDecodesWhenThePromptIsZero) {
  const Sweep sweep = {.prompts = {0}, .decodes = {16}, .depths = {3}, .parallels = {2}};
  EXPECT_EQ(cases_of(sweep), (std::vector<Case>{{Phase::kDecode, 16, 3, 2}}));
}

TEST(Speed, DividesTokensByTheClock) {
  const auto engine = tiny_engine();
  const auto speed = measure_speed(*engine, std::vector{kPrompt, kAnswers}, two_rounds());
  ASSERT_TRUE(speed.ok());
  ASSERT_EQ(speed->size(), 2u);
  EXPECT_EQ((*speed)[0].what, kPrompt);
  EXPECT_EQ((*speed)[0].tok_s, std::vector<double>(2, 40));
  EXPECT_EQ((*speed)[1].tok_s, std::vector<double>(2, 30));
}

// Whether earlier rounds used forks or not.
TEST(Speed, CountsTheMemoryOfTheLastRoundsSequencesAlone) {
  const auto engine = tiny_engine();
  const kv::Shape shape = engine->model().kv_shape(kernels::DType::kF16, kernels::DType::kF16);
  for (const kv::Strategy& strategy : kv::strategies()) {
    // Skips tiered ones, whose rows are in another tier.
    if (!strategy.traits.exact || strategy.traits.tiered) continue;
    SpeedOptions options = two_rounds();
    options.kv.spec.name = strategy.name;
    const auto speed = measure_speed(*engine, std::vector{kPrompt, kAnswers}, options);
    ASSERT_TRUE(speed.ok()) << speed.error().message;
    const kv::Usage prompt = (*speed)[0].usage, answers = (*speed)[1].usage;
    EXPECT_EQ(prompt.used_bytes, 45 * shape.token_bytes()) << strategy.name;
    EXPECT_EQ(answers.used_bytes, 3 * 15 * shape.token_bytes()) << strategy.name;
    EXPECT_EQ(answers.wasted_bytes, answers.allocated_bytes - answers.used_bytes);
    EXPECT_EQ(answers.sequences, 3u);
  }
}

TEST(Speed, DoesNotCountItsOwnForksAsCopies) {
  const auto engine = tiny_engine();
  SpeedOptions options = two_rounds();
  options.kv.spec.name = "upfront";  // copies rows only to fork
  const auto speed = measure_speed(*engine, std::vector{kAnswers}, options);
  ASSERT_TRUE(speed.ok());
  EXPECT_EQ(speed->front().usage.copied_bytes, 0u);
}

TEST(Speed, FillsAgainWhereForksDoNotFit) {
  const auto engine = tiny_engine();
  const uint64_t token =
      engine->model().kv_shape(kernels::DType::kF16, kernels::DType::kF16).token_bytes();
  std::vector<uint64_t> done;
  SpeedOptions options = two_rounds(128 * token);  // one sequence of the whole context
  options.kv.spec.name = "upfront";
  options.progress = [&](uint64_t tokens, uint64_t total) {
    done.push_back(tokens);
    EXPECT_LE(tokens, total);
  };
  const auto speed = measure_speed(*engine, std::vector{kPrompt}, options);
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  EXPECT_EQ(speed->front().tok_s.size(), 2u);
  EXPECT_EQ(done.size(), 6u);  // each of three rounds fills and reads
  EXPECT_EQ(done.back(), 5u + 3 * 40);
}

TEST(Speed, FillsADepthOnceWhereForksFit) {
  const auto engine = tiny_engine();
  std::vector<uint64_t> done;
  SpeedOptions options = two_rounds();
  options.progress = [&](uint64_t tokens, uint64_t total) {
    done.push_back(tokens);
    EXPECT_EQ(total, 5u + 3 * 40);
  };
  ASSERT_TRUE(measure_speed(*engine, std::vector{kPrompt}, options).ok());
  EXPECT_EQ(done, (std::vector<uint64_t>{5, 45, 85, 125}));
}

TEST(Speed, RefusesWhatDoesNotFitBeforeItMeasures) {
  const auto engine = tiny_engine(128);
  EXPECT_EQ(refusal(*engine, {kAnswers, {Phase::kPrefill, 100, 29, 1}}),
            "prefill of 100 tokens at depth 29 does not fit a context of 128");
  EXPECT_NE(refusal(*engine, {}).find("nothing to measure"), std::string::npos);
  EXPECT_NE(refusal(*engine, {{Phase::kDecode, 1, 0, 0}}).find("at least one"), std::string::npos);
}

TEST(Speed, MeasuresAnEndlessCachePastItsContext) {
  const auto engine = tiny_engine(128);
  SpeedOptions options = two_rounds();
  options.kv.spec.name = "sliding";
  options.kv.max_tokens = 64;
  const auto speed = measure_speed(*engine, std::vector{Case{Phase::kDecode, 10, 500, 2}}, options);
  ASSERT_TRUE(speed.ok()) << speed.error().message;
  const uint64_t token =
      engine->model().kv_shape(kernels::DType::kF16, kernels::DType::kF16).token_bytes();
  EXPECT_EQ(speed->front().usage.used_bytes, 2 * 63 * token);
  EXPECT_EQ(speed->front().usage.allocated_bytes, 2 * 126 * token);
}

TEST(Speed, SaysThatTheCacheHasNoRoom) {
  const auto engine = tiny_engine();
  const auto speed = measure_speed(*engine, std::vector{kPrompt}, two_rounds(16));
  ASSERT_FALSE(speed.ok());
  EXPECT_NE(speed.error().message.find("no room in the cache"), std::string::npos);
}

TEST(Speed, MedianAndSpreadAreThoseOfTheList) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(spread({2, 1, 3}), 1);
}

}  // namespace
}  // namespace kvick::engine
