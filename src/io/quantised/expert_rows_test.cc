#include "io/quantised/expert_rows.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <stdexcept>

#include "io/quantised/join.h"
#include "io/quantised/test_tensors.h"

namespace kvick::io {
namespace {

const Tensor& named(const std::vector<JoinedTensor>& all, const std::string& name) {
  for (const JoinedTensor& one : all)
    if (one.tensor.name == name) return one.tensor;
  throw std::runtime_error("no " + name);
}

// The values are consecutive numbers, [experts][inputs][outputs], so that each shows its place.
TEST(ExpertRows, GateAndUpAreTakenApartAndTurned) {
  constexpr uint64_t kExperts = 2, kInputs = 3, kOutputs = 8;
  std::vector<float> values, biases;
  for (uint64_t i = 0; i < kExperts * kInputs * kOutputs; ++i)
    values.push_back(static_cast<float>(i));
  for (uint64_t i = 0; i < kExperts * kOutputs; ++i) biases.push_back(static_cast<float>(100 + i));
  TestTensors t;
  t.add("l.experts.gate_up_proj", StoredType::kF32, {kExperts, kInputs, kOutputs}, values);
  t.add("l.experts.gate_up_proj_bias", StoredType::kF32, {kExperts, kOutputs}, biases);
  t.add("l.experts.down_proj", StoredType::kF32, {kExperts, kInputs, kOutputs}, values);
  for (const GateUp order : {GateUp::kInterleaved, GateUp::kHalves}) {
    const auto all = join_tensors({}, order, t.list());
    ASSERT_TRUE(all.ok()) << all.error().message;
    EXPECT_EQ(all->size(), 5u);
    for (const bool up : {false, true}) {
      const std::string name = up ? "l.experts.up_proj" : "l.experts.gate_proj";
      const auto output = [&](uint64_t i) {
        return order == GateUp::kHalves ? i + (up ? kOutputs / 2 : 0) : 2 * i + (up ? 1 : 0);
      };
      const Tensor& weight = named(*all, name + ".weight");
      EXPECT_EQ(weight.shape, (std::vector<uint64_t>{kExperts, kOutputs / 2, kInputs}));
      const std::vector<float> got = floats_of(weight);
      const std::vector<float> bias = floats_of(named(*all, name + ".bias"));
      for (uint64_t e = 0; e < kExperts; ++e)
        for (uint64_t o = 0; o < kOutputs / 2; ++o) {
          EXPECT_EQ(bias[e * kOutputs / 2 + o], static_cast<float>(100 + e * kOutputs + output(o)));
          for (uint64_t i = 0; i < kInputs; ++i)
            EXPECT_EQ(got[(e * kOutputs / 2 + o) * kInputs + i],
                      static_cast<float>((e * kInputs + i) * kOutputs + output(o)));
        }
      std::vector<std::byte> row(weight.row_bytes()), all_rows(weight.bytes());
      weight.read_rows(5, 1, row.data());  // of the second expert
      weight.read_rows(0, kExperts * kOutputs / 2, all_rows.data());
      EXPECT_EQ(std::memcmp(row.data(), all_rows.data() + 5 * row.size(), row.size()), 0);
    }
    const std::vector<float> down = floats_of(named(*all, "l.experts.down_proj.weight"));
    EXPECT_EQ(down[1 * kInputs + 2], static_cast<float>(2 * kOutputs + 1));
  }
}

TEST(ExpertRows, BlocksOfMxfp4KeepTheirScales) {
  TestTensors t;
  const StoredTensor blocks =
      t.random("l.experts.gate_up_proj_blocks", StoredType::kU8, {2, 4, 3, 16});
  std::vector<uint8_t> exponents;
  for (uint8_t i = 0; i < 24; ++i) exponents.push_back(static_cast<uint8_t>(115 + i));
  t.add("l.experts.gate_up_proj_scales", StoredType::kU8, {2, 4, 3}, exponents);
  const auto all = join_tensors({.method = Scheme::Method::kMxfp4}, GateUp::kInterleaved, t.list());
  ASSERT_TRUE(all.ok()) << all.error().message;
  const float values[] = {0, 0.5F, 1, 1.5F, 2, 3, 4, 6};
  for (const uint64_t up : {0U, 1U}) {
    const Tensor& tensor =
        named(*all, up != 0 ? "l.experts.up_proj.weight" : "l.experts.gate_proj.weight");
    EXPECT_EQ(tensor.dtype, kernels::DType::kMXFP4);
    EXPECT_EQ(tensor.shape, (std::vector<uint64_t>{2, 2, 96}));
    const std::vector<float> got = floats_of(tensor);
    for (uint64_t i = 0; i < got.size(); ++i) {
      const uint64_t row = i / 96 / 2 * 4 + i / 96 % 2 * 2 + up, group = row * 3 + i % 96 / 32;
      const int both = std::to_integer<int>(blocks.data[group * 16 + i % 32 / 2]);
      const int code = i % 2 == 0 ? both & 15 : both >> 4;
      const float value = code < 8 ? values[code] : -values[code - 8];
      ASSERT_EQ(got[i], std::ldexp(value, exponents[group] - 127)) << i;
    }
  }
}

}  // namespace
}  // namespace kvick::io
