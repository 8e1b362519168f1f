#include "lab/measure/sampled_decode.h"

#include <gtest/gtest.h>

#include "lab/core/test_bench.h"

namespace kvick::lab {
namespace {

Json measured(ModelBench& t, const DecodePoint& point) {
  const auto json = measure_decode(t.bench, point);
  EXPECT_TRUE(json.ok()) << (json.ok() ? "" : json.error().message);
  return json.ok() ? *json : Json::object();
}

TEST(SampledDecode, ChargesAGrowthAndAProductToTheTokensThatTheyServe) {
  ModelBench t;
  struct Case {
    const char *spec, *attention;
    uint32_t growth_tokens, compile_tokens;
  };
  for (const Case& c : {Case{"iterative", "bmm", 1, 1},
                        {"upfront", "bmm", 256, 256},
                        {"bmc:r=32", "bmm", 32, 32},
                        {"bmc:r=32", "fused", 32, 1},
                        {"paged:block=16", "fused", 16, 1}}) {
    const Json json = measured(
        t, {.spec = c.spec, .attention = c.attention, .tokens = 256, .batch = 2, .depth = 100});
    EXPECT_EQ(json.value("growth_tokens", 0U), c.growth_tokens) << c.spec;
    EXPECT_EQ(json.value("compile_tokens", 0U), c.compile_tokens) << c.spec;
    EXPECT_EQ(json.value("compile_s", -1.0) > 0, std::string_view(c.attention) == "bmm") << c.spec;
    EXPECT_GT(json.value("growing_step_s", 0.0), 0) << c.spec;
    EXPECT_NE(json.value("step_s", 0.0), 0) << c.spec;
  }
}

TEST(SampledDecode, LeavesTheMemoryThatSingleStepsWouldHaveTaken) {
  ModelBench t;
  for (const char* spec : {"iterative", "upfront", "bmc:r=32", "bmc:r=auto", "virtual", "paged"})
    for (const uint32_t depth : {0U, 1U, 31U, 32U, 200U, 254U}) {
      const Json json = measured(
          t, {.spec = spec, .attention = "fused", .tokens = 256, .batch = 3, .depth = depth});
      engine::KvOptions kv = engine::parse_kv_options(spec, "f32").value();
      kv.max_tokens = 256;
      const uint32_t tokens = std::min(depth + 4, 256U);
      const auto cost =
          t.engines[engine::Attention::kFused]->cost(kv, {.tokens = tokens, .sequences = 3});
      EXPECT_EQ(json.value("allocated_bytes", uint64_t{0}), cost.value().fast_bytes)
          << spec << " at " << depth;
    }
}

TEST(SampledDecode, SaysWhatDoesNotFit) {
  ModelBench t;
  DecodePoint point = {
      .spec = "virtual", .attention = "fused", .tokens = 4096, .batch = 1, .depth = 8};
  auto json = measure_decode(t.bench, point);
  ASSERT_FALSE(json.ok());
  EXPECT_NE(json.error().message.find("the model has 512"), std::string::npos);
  point.tokens = 9;
  json = measure_decode(t.bench, point);
  ASSERT_FALSE(json.ok());
  EXPECT_NE(json.error().message.find("no two steps"), std::string::npos);
  point.attention = "bmm";
  point.spec = "paged";
  point.tokens = 64;
  json = measure_decode(t.bench, point);
  ASSERT_FALSE(json.ok());
  EXPECT_NE(json.error().message.find("needs rows in one piece"), std::string::npos);
}

TEST(SampledDecode, PutsDepthsIntoTheMiddlesOfEqualParts) {
  EXPECT_EQ(sample_depths(0, 2048, 4), (std::vector<uint32_t>{256, 768, 1280, 1792}));
  EXPECT_EQ(sample_depths(100, 104, 2), (std::vector<uint32_t>{101, 103}));
  EXPECT_EQ(sample_depths(7, 8, 4), (std::vector<uint32_t>{7}));
}

// If seconds are linear in the depth, the sum over all tokens is exact.
TEST(SampledDecode, SumsALineOverTheDepthExactly) {
  std::vector<Measured> cells;
  std::vector<const Measured*> pointers;
  for (const uint32_t depth : sample_depths(0, 1024, 8))
    cells.push_back({.cell = {},
                     .runs = {{{"begin_s", 1.0},
                               {"forward_s", 2.0 * depth},
                               {"commit_s", 0.0},
                               {"compile_s", 0.5}}}});
  for (const Measured& cell : cells) pointers.push_back(&cell);
  const DecodeSeconds sum = sum_over(pointers, 1024);
  EXPECT_DOUBLE_EQ(sum.begin, 1024);
  EXPECT_DOUBLE_EQ(sum.forward, 2.0 * 512 * 1024);
  EXPECT_DOUBLE_EQ(sum.compile, 512);
  EXPECT_DOUBLE_EQ(sum.all(), 1024 + 2.0 * 512 * 1024 + 512);
}

TEST(SampledDecode, KeepsAPointInItsCellAndTheModelInItsKey) {
  TestBench t;
  t.bench.model_path = "/models/S-Q8_0.gguf";
  const DecodePoint point = {
      .spec = "bmc:r=16", .attention = "bmm", .tokens = 64, .batch = 2, .depth = 40};
  const Cell cell = cell_of(t.bench, point);
  EXPECT_EQ(cell.key, "S-Q8_0 N=64 B=2 bmc:r=16 bmm at 40");
  const DecodePoint back = point_of(cell);
  EXPECT_EQ(back.spec, point.spec);
  EXPECT_EQ(back.attention, point.attention);
  EXPECT_EQ(back.tokens, point.tokens);
  EXPECT_EQ(back.batch, point.batch);
  EXPECT_EQ(back.depth, point.depth);
}

}  // namespace
}  // namespace kvick::lab
