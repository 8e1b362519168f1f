#include "plan/forecast/model_size.h"

#include <gtest/gtest.h>

namespace kvick::plan {
namespace {

uint64_t weights_of(const std::vector<TypedWeights>& all) {
  uint64_t sum = 0;
  for (const TypedWeights& one : all) sum += one.weights;
  return sum;
}

TEST(ParseShape, GivesLlama2OfSevenBillionItsWeights) {
  const auto size = parse_shape("layers=32,heads=32,kv_heads=32,head_dim=128,ffn=11008");
  ASSERT_TRUE(size.ok()) << size.error().message;
  EXPECT_EQ(size->config.dim, 4096U);
  EXPECT_EQ(weights_of(size->layers), 32U * (4 * 4096ULL * 4096 + 3 * 4096ULL * 11008));
  EXPECT_EQ(weights_of(size->output), 32000U * 4096ULL);
  // Q8_0 takes one byte per weight, and two more per 32 weights.
  EXPECT_NEAR(static_cast<double>(packed_bytes(*size)),
              34.0 / 32 * static_cast<double>(weights_of(size->layers) + weights_of(size->output)),
              1e3);
}

TEST(ParseShape, TakesEveryKey) {
  const auto size = parse_shape(
      "layers=2,heads=4,kv_heads=2,head_dim=128,dim=256,ffn=768,vocab=512,context=77,type=q4_k");
  ASSERT_TRUE(size.ok());
  EXPECT_EQ(size->config.layers.front().group(), 2U);
  EXPECT_EQ(size->config.context, 77U);
  EXPECT_EQ(weights_of(size->layers), 2U * (2 * 256 * (512 + 256) + 3 * 256 * 768));
  EXPECT_EQ(size->layers[0].type, kernels::DType::kQ4_K);
}

TEST(ParseShape, NamesWhatIsWrong) {
  const auto error = [](const char* text) { return parse_shape(text).error().message; };
  EXPECT_NE(error("layers=2,heads=4,kv_heads=2").find("head_dim is missing"), std::string::npos);
  EXPECT_NE(error("layers=0").find("layers=0 is not a whole number"), std::string::npos);
  EXPECT_NE(error("layers=9999999999").find("is not a whole number"), std::string::npos);
  // The description of each layer takes kilobytes, so there is a limit.
  EXPECT_NE(error("layers=1025").find("is not a whole number from 1 to 1024"), std::string::npos);
  EXPECT_NE(error("layers=2,heads=4,layers=3").find("layers is given twice"), std::string::npos);
  EXPECT_NE(error("layer=2").find("\"layer\" is none of"), std::string::npos);
  EXPECT_NE(error("").find("is none of"), std::string::npos);
  EXPECT_NE(error("type=q8").find("no type of weights"), std::string::npos);
  EXPECT_NE(error("layers=2,heads=4,kv_heads=3,head_dim=8").find("cannot share"),
            std::string::npos);
  // heads * head_dim would overflow 32 bits.
  EXPECT_NE(error("layers=2,heads=65536,kv_heads=65536,head_dim=65536").find("which no model is"),
            std::string::npos);
}

TEST(ModelSize, RefusesAShapeWhoseRowsAreNoWholeBlocks) {
  const auto shape = parse_shape("layers=2,heads=9,kv_heads=3,head_dim=64,type=Q4_K");
  ASSERT_FALSE(shape.ok());
  EXPECT_NE(shape.error().message.find("576"), std::string::npos) << shape.error().message;
  EXPECT_TRUE(parse_shape("layers=2,heads=9,kv_heads=3,head_dim=64,type=Q4_0").ok());
  EXPECT_FALSE(parse_shape("layers=2,heads=1,kv_heads=1,head_dim=20").ok());
}

}  // namespace
}  // namespace kvick::plan
