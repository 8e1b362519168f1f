#include "io/quantised/join.h"

#include <functional>
#include <gtest/gtest.h>
#include <random>

#include "io/quantised/test_tensors.h"

namespace kvick::io {
namespace {

using Method = Scheme::Method;

void add_gptq(TestTensors& t) {
  t.random("m.qweight", StoredType::kI32, {16, 16});
  t.random("m.qzeros", StoredType::kI32, {4, 2});
  t.scales("m.scales", {4, 16});
  t.add("m.g_idx", StoredType::kI32, {128}, std::vector<uint32_t>(128));
}
void add_awq(TestTensors& t) {
  t.random("m.qweight", StoredType::kI32, {128, 2});
  t.random("m.qzeros", StoredType::kI32, {4, 2});
  t.scales("m.scales", {4, 16});
}
void add_packed(TestTensors& t) {
  t.random("m.weight_packed", StoredType::kI32, {16, 8});
  t.add("m.weight_shape", StoredType::kI64, {2}, std::vector<int64_t>{16, 64});
  t.scales("m.weight_scale", {16, 2});
  t.random("m.weight_zero_point", StoredType::kI32, {2, 2});
}
void add_bytes(TestTensors& t) {
  t.random("m.weight", StoredType::kI8, {16, 64});
  t.scales("m.weight_scale", {16, 1});
}
void add_fp8(TestTensors& t) {
  t.random("m.weight", StoredType::kF8E4M3, {16, 64});
  t.scales("m.weight_scale_inv", {2, 2});
}
void add_mxfp4(TestTensors& t) {
  t.random("e.experts.gate_up_proj_blocks", StoredType::kU8, {2, 6, 2, 16});
  t.random("e.experts.gate_up_proj_scales", StoredType::kU8, {2, 6, 2});
}

struct Format {
  Scheme scheme;
  void (*add)(TestTensors& t);
};
const Format kGptq = {{.method = Method::kGptq, .bits = 4, .group = 32, .zero_added = 1}, add_gptq};
const Format kAwq = {{.method = Method::kAwq, .bits = 4, .group = 32}, add_awq};
const Format kPacked = {{.method = Method::kCompressed}, add_packed};
const Format kBytes = {{.method = Method::kCompressed}, add_bytes};
const Format kFp8 = {{.method = Method::kFp8}, add_fp8};
const Format kMxfp4 = {{.method = Method::kMxfp4}, add_mxfp4};

base::Result<std::vector<JoinedTensor>> join(const Format& format, const TestTensors& t) {
  return join_tensors(format.scheme, GateUp::kInterleaved, t.list());
}

TEST(Join, WhatIsNotQuantisedStaysAndWhatNoWeightNeedsGoes) {
  TestTensors t;
  add_fp8(t);
  const StoredTensor& norm = t.scales("norm.weight", {64});
  t.scales("m.input_scale", {1});
  t.scales("self_attn.k_scale", {1});
  const auto all = join(kFp8, t);
  ASSERT_TRUE(all.ok()) << all.error().message;
  ASSERT_EQ(all->size(), 2u);
  EXPECT_EQ((*all)[0].tensor.name, "m.weight");
  EXPECT_EQ((*all)[1].tensor.name, "norm.weight");
  EXPECT_EQ((*all)[1].tensor.data.data(), norm.data.data());
  EXPECT_EQ((*all)[1].tensor.source, nullptr);
}

TEST(Join, APartThatIsMissingOrOfAnotherShapeIsOneLine) {
  struct {
    const Format& format;
    const char* tensor;
    std::function<void(StoredTensor&)> spoil;  // empty: removes the tensor
    const char* expected;
  } const table[] = {
      {kGptq, "m.qzeros", {}, "has no m.qzeros beside it"},
      {kGptq, "m.scales", {}, "has no m.scales beside it"},
      {kGptq, "m.qzeros",
       [](auto& t) {
         t.shape = {2, 4};
       },
       "[4, 2] is expected"},
      {kGptq, "m.qzeros", [](auto& t) { t.type = StoredType::kF32; }, "I32 is expected"},
      {kGptq, "m.scales", [](auto& t) { t.shape = {64}; }, "scales are [64]"},
      {kGptq, "m.scales",
       [](auto& t) {
         t.shape = {2, 16};
       },
       "2 groups for 128 inputs, of which 32"},
      {kGptq, "m.scales", [](auto& t) { t.type = StoredType::kI8; }, "scales are I8"},
      {kGptq, "m.qweight", [](auto& t) { t.shape = {256}; }, "a matrix is expected"},
      {kGptq, "m.qweight",
       [](auto& t) {
         t.shape = {uint64_t{1} << 60, 16};
       },
       "a matrix is"},
      {kGptq, "m.qweight",
       [](auto& t) {
         t.shape = {16, 17};
       },
       "for 17 outputs"},
      {kGptq, "m.g_idx",
       [](auto& t) {
         t.shape = {64, 2};
       },
       "I32 [128] is expected"},
      {kGptq, "m.g_idx",
       [](auto& t) {
         t.data = t.data.subspan(0);
         t.type = StoredType::kF32;
       },
       "is F32 [128]; I32 [128]"},
      {kAwq, "m.qzeros", {}, "has no m.qzeros"},
      {kAwq, "m.qzeros",
       [](auto& t) {
         t.shape = {8, 1};
       },
       "[4, 2] is expected"},
      {kAwq, "m.scales",
       [](auto& t) {
         t.shape = {16, 4};
       },
       "for 16 outputs and 128 inputs"},
      {kPacked, "m.weight_shape", {}, "has no m.weight_shape"},
      {kPacked, "m.weight_scale", {}, "has no m.weight_scale"},
      {kPacked, "m.weight_shape",
       [](auto& t) {
         t.shape = {1, 2};
       },
       "two numbers of I64"},
      {kPacked, "m.weight_packed",
       [](auto& t) {
         t.shape = {16, 7};
       },
       "of 4 or 8 bits"},
      {kPacked, "m.weight_scale",
       [](auto& t) {
         t.shape = {16, 3};
       },
       "do not divide"},
      {kPacked, "m.weight_zero_point",
       [](auto& t) {
         t.shape = {16, 2};
       },
       "[2, 2] is expected"},
      {kBytes, "m.weight_scale", {}, "has no m.weight_scale"},
      {kBytes, "m.weight_scale", [](auto& t) { t.shape = {17}; }, "do not divide"},
      {kFp8, "m.weight_scale_inv", {}, "has no m.weight_scale"},
      {kFp8, "m.weight", [](auto& t) { t.shape = {1024}; }, "FP8 of shape [1024]"},
      {kMxfp4, "e.experts.gate_up_proj_scales", {}, "has no e.experts.gate_up_proj_scales"},
      {kMxfp4, "e.experts.gate_up_proj_scales",
       [](auto& t) {
         t.shape = {2, 12};
       },
       "U8 of the"},
      {kMxfp4, "e.experts.gate_up_proj_blocks",
       [](auto& t) {
         t.shape = {2, 3, 2, 32};
       },
       "a gate"},
      {kMxfp4, "e.experts.gate_up_proj_blocks",
       [](auto& t) {
         t.shape = {2, 2, 6, 16};
       },
       "U8 of the blocks"},
  };
  for (const auto& [format, tensor, spoil, expected] : table) {
    TestTensors t;
    format.add(t);
    ASSERT_TRUE(join(format, t).ok()) << tensor << ": " << join(format, t).error().message;
    if (spoil) {
      spoil(*t.find(tensor));
    } else {
      t.find(tensor)->name = "elsewhere";
      t.find("elsewhere")->type = StoredType::kF16;
    }
    const auto all = join(format, t);
    ASSERT_FALSE(all.ok()) << tensor << ": " << expected;
    const std::string& message = all.error().message;
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST(Join, GroupsAndShapesThatFilesGetWrongAreRefused) {
  TestTensors groups;
  add_gptq(groups);
  groups.find("m.g_idx")->name = "old";
  groups.add("m.g_idx", StoredType::kI32, {128}, std::vector<int32_t>(128, -1));
  groups.find("old")->type = StoredType::kF32;
  const auto all = join(kGptq, groups);
  ASSERT_FALSE(all.ok());
  EXPECT_NE(all.error().message.find("input 0 is of group -1, but there are 4"), std::string::npos)
      << all.error().message;
  for (const auto& [outputs, inputs] : {std::pair<int64_t, int64_t>{-1, 64},
                                        {16, 0},
                                        {16, int64_t{1} << 62},
                                        {INT64_MIN, INT64_MAX}}) {
    TestTensors t;
    add_packed(t);
    t.find("m.weight_shape")->name = "norm.weight";
    t.find("norm.weight")->type = StoredType::kF32;
    t.add("m.weight_shape", StoredType::kI64, {2}, std::vector<int64_t>{outputs, inputs});
    EXPECT_FALSE(join(kPacked, t).ok()) << outputs << " " << inputs;
  }
}

// Whatever shapes the tensors claim for their bytes, the result is an error or a tensor that can be
// read.
TEST(Join, HostileShapesAreErrorsOrCanBeRead) {
  std::mt19937 random(3);
  const Format formats[] = {kGptq, kAwq, kPacked, kBytes, kFp8, kMxfp4};
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    const Format& format = formats[random() % std::size(formats)];
    TestTensors made, t;
    format.add(made);
    for (const StoredTensor& tensor : made.all) {
      std::vector<uint64_t> shape = tensor.shape;
      if (random() % 3 == 0) shape[random() % shape.size()] = 1 + random() % 40;
      if (random() % 12 == 0) shape.push_back(1 + random() % 3);
      if (random() % 12 == 0) shape.pop_back();
      if (random() % 20 != 0) t.random(tensor.name, tensor.type, shape);
    }
    Scheme scheme = format.scheme;
    if (random() % 4 == 0) scheme.group = random() % 200;
    if (random() % 4 == 0)
      scheme.block_outputs = random() % 20, scheme.block_inputs = random() % 20;
    if (random() % 8 == 0) scheme.block_inputs = scheme.block_outputs = UINT64_MAX;
    const auto all = join_tensors(scheme, GateUp::kHalves, t.list());
    if (!all.ok()) {
      EXPECT_FALSE(all.error().message.empty());
      continue;
    }
    for (const auto& [tensor, label] : *all) {
      floats_of(tensor);
      ++read;
    }
  }
  EXPECT_GT(read, 100);
}

}  // namespace
}  // namespace kvick::io
