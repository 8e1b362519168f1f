#include "io/quantised/scheme.h"

#include <gtest/gtest.h>

namespace kvick::io {
namespace {

base::Result<Scheme> scheme_of(const std::string& text) {
  const std::string config = R"({"quantization_config": )" + text + "}";
  KVICK_TRY(const JsonDocument document, JsonDocument::parse(config, "config.json", 1 << 20));
  KVICK_TRY(const JsonObject root, JsonObject::from(document.root(), "config.json"));
  return read_scheme(root);
}

TEST(Scheme, IsWhatConfigJsonSays) {
  using Method = Scheme::Method;
  EXPECT_EQ(scheme_of("null")->method, Method::kNone);
  const auto fp8 = scheme_of(R"({"quant_method": "fp8", "weight_block_size": [128, 64]})");
  EXPECT_EQ(fp8->method, Method::kFp8);
  EXPECT_EQ(fp8->block_outputs, 128u);
  EXPECT_EQ(fp8->block_inputs, 64u);
  const auto gptq = scheme_of(R"({"quant_method": "gptq", "bits": 8, "group_size": -1})");
  EXPECT_EQ(gptq->bits, 8u);
  EXPECT_EQ(gptq->zero_added, 1u);
  EXPECT_GT(gptq->group, uint64_t{1} << 30);
  const auto second = scheme_of(
      R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "gptq_v2"})");
  EXPECT_EQ(second->zero_added, 0u);
  EXPECT_EQ(second->group, 128u);
  EXPECT_EQ(scheme_of(R"({"quant_method": "awq", "version": "GEMM"})")->method, Method::kAwq);
  EXPECT_EQ(scheme_of(R"({"quant_method": "mxfp4"})")->method, Method::kMxfp4);
  const auto blocks = scheme_of(R"({"quant_method": "compressed-tensors", "format":
    "float-quantized", "config_groups": {"a": {"weights": {"block_structure": [32, 16]}}}})");
  EXPECT_EQ(blocks->method, Method::kCompressed);
  EXPECT_EQ(blocks->block_inputs, 16u);
}

TEST(Scheme, OfMlxIsNamed) {
  for (const std::string config :
       {R"({"quantization": {"group_size": 64, "bits": 4, "mode": "affine"}})",
        R"({"quantization_config": {"group_size": 64, "bits": 4}})"}) {
    const auto document = JsonDocument::parse(config, "config.json", 1 << 20);
    const auto scheme = read_scheme(*JsonObject::from(document->root(), "config.json"));
    ASSERT_FALSE(scheme.ok()) << config;
    EXPECT_NE(scheme.error().message.find("is that of MLX, whose weights kvick does not read: "
                                          "take a GGUF file of the model"),
              std::string::npos)
        << scheme.error().message;
  }
}

TEST(Scheme, WhatKvickDoesNotReadIsOneLineThatNamesIt) {
  const std::pair<const char*, const char*> table[] = {
      {R"({"quant_method": "bitsandbytes"})",
       "'quant_method' is 'bitsandbytes', which kvick does not read; it reads fp8, gptq, awq"},
      {R"({})", "'quant_method' is missing"},
      {R"(7)", "must be a JSON object"},
      {R"({"quant_method": "gptq"})", "'bits' is missing"},
      {R"({"quant_method": "gptq", "bits": 3})", "'bits' is 3; of gptq kvick reads 4 and 8 bits"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 0})", "'group_size' must be -1 or"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 1e9})", "'group_size' must be -1 or"},
      {R"({"quant_method": "gptq", "bits": 4, "group_size": 99999999999})", "must be -1 or"},
      {R"({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"})",
       "'checkpoint_format' is 'marlin'; of gptq kvick reads gptq and gptq_v2"},
      {R"({"quant_method": "gptq", "bits": 4, "is_marlin_format": true})",
       "'is_marlin_format' is true"},
      {R"({"quant_method": "compressed-tensors", "format": "dense", "transform_config": {"a": 1}})",
       "'transform_config': kvick does not apply transforms"},
      {R"({"quant_method": "awq", "bits": 8})", "of awq kvick reads 4 bits"},
      {R"({"quant_method": "awq", "version": "gemv"})", "of awq kvick reads gemm"},
      {R"({"quant_method": "fp8", "weight_block_size": [128]})", "must be two whole numbers"},
      {R"({"quant_method": "fp8", "weight_block_size": [0, 1]})", "must be two whole numbers"},
      {R"({"quant_method": "compressed-tensors"})", "'format' is missing"},
      {R"({"quant_method": "compressed-tensors", "format": "marlin-24"})",
       "'format' is 'marlin-24'; of compressed-tensors kvick reads pack-quantized"},
      {R"({"quant_method": "compressed-tensors", "format": "dense", "config_groups": [1]})",
       "must be a JSON object"},
  };
  for (const auto& [text, expected] : table) {
    const auto scheme = scheme_of(text);
    ASSERT_FALSE(scheme.ok()) << text;
    EXPECT_NE(scheme.error().message.find(expected), std::string::npos) << scheme.error().message;
    EXPECT_EQ(scheme.error().message.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace kvick::io
