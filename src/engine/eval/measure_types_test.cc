#include "engine/eval/measure_types.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

std::vector<Token> some_text() {
  std::vector<Token> text;
  for (int i = 0; i < 128; ++i) text.push_back(static_cast<Token>((i * i * 7 + i) % 256));
  return text;
}

TEST(MeasureTypes, SortsByBytesAndFewerBitsLoseMore) {
  const auto engine = wide_engine();
  const TypesMeasured all =
      measure_types(*engine, some_text(), {.types = {"q2", "q8", "f16"}, .window = 64, .kl = 0})
          .value();
  ASSERT_EQ(all.types.size(), 3U);
  EXPECT_EQ(all.types[0].type, "f16");
  EXPECT_EQ(all.types[1].type, "q8");
  EXPECT_EQ(all.types[2].type, "q2:rotate=on");
  EXPECT_EQ(all.types[0].kl_mean, 0);
  // The sums are added in another order.
  EXPECT_NEAR(all.types[0].perplexity / all.f16_perplexity, 1, 1e-12);
  EXPECT_GT(all.types[1].kl_mean, 0);
  EXPECT_GT(all.types[2].kl_mean, all.types[1].kl_mean);
  EXPECT_EQ(all.types[0].bytes_per_token * 34, all.types[1].bytes_per_token * 64);
  EXPECT_EQ(all.types[2].bytes_per_token * 34, all.types[1].bytes_per_token * 10);
  EXPECT_EQ(all.recommended, 0U);
  EXPECT_EQ(all.tokens, 2U * 63);
}

TEST(MeasureTypes, RecommendsTheFewestBytesWithinTheBound) {
  const auto engine = wide_engine();
  const auto recommended = [&](double kl) {
    return measure_types(*engine, some_text(),
                         {.types = {"f16", "q8", "q4", "q2"}, .window = 64, .kl = kl})
        .value()
        .recommended;
  };
  EXPECT_EQ(recommended(1e9), 3U);
  EXPECT_EQ(recommended(-1), 4U);  // none is within the bound
}

// If it were read in one step, no row would have aged yet.
TEST(MeasureTypes, RowsAgeAsInDecoding) {
  const auto engine = wide_engine();
  const TypesMeasured aged =
      measure_types(*engine, some_text(), {.types = {"mixed:window=0,old=q2"}, .window = 64})
          .value();
  EXPECT_GT(aged.types.front().kl_mean, 1e-6);
}

TEST(MeasureTypes, SaysWhatIsWrongBeforeItMeasures) {
  const auto engine = wide_engine();
  uint64_t calls = 0;
  const auto refusal = [&](const char* type) {
    TypesOptions options = {.types = {"f16", type}, .window = 64};
    options.progress = [&](uint64_t, uint64_t) { ++calls; };
    return measure_types(*engine, some_text(), options).error().message;
  };
  EXPECT_EQ(refusal("q5").find("cache rows of type \"q5\" do not exist"), 0U);
  EXPECT_EQ(refusal("static8").find("static8 needs the file of its ranges"), 0U);
  EXPECT_EQ(calls, 0U);
}

}  // namespace
}  // namespace kvick::engine
