#include "io/quantised/integer_weights.h"

#include <cmath>
#include <gtest/gtest.h>

#include "io/quantised/join.h"
#include "io/quantised/test_tensors.h"

namespace kvick::io {
namespace {

using kernels::DType;
using Method = Scheme::Method;

// The naive twins: one weight, by output and input, by the formats' definitions.
float gptq_twin(TestTensors& t, uint32_t bits, uint64_t group, uint64_t out, uint64_t in,
                uint32_t zero_added) {
  const uint64_t n = 32 / bits, outputs = t.find("m.scales")->shape[1];
  const uint32_t mask = (1U << bits) - 1;
  const uint64_t g = t.find("m.g_idx") != nullptr ? word(*t.find("m.g_idx"), in) : in / group;
  const uint32_t code = word(*t.find("m.qweight"), in / n * outputs + out) >> (in % n * bits);
  const uint32_t zero = word(*t.find("m.qzeros"), g * outputs / n + out / n) >> (out % n * bits);
  const int z = static_cast<int>(((zero & mask) + zero_added) & mask);
  return half(*t.find("m.scales"), g * outputs + out) * static_cast<float>(int(code & mask) - z);
}

float awq_twin(TestTensors& t, uint64_t group, uint64_t out, uint64_t in) {
  constexpr uint64_t kOrder[] = {0, 2, 4, 6, 1, 3, 5, 7};
  const uint64_t outputs = t.find("m.scales")->shape[1];
  uint64_t place = 0;
  while (kOrder[place] != out % 8) ++place;
  const auto at = [&](const char* name, uint64_t row) {
    return int(word(*t.find(name), row * outputs / 8 + out / 8) >> (place * 4) & 15);
  };
  return half(*t.find("m.scales"), in / group * outputs + out) *
         static_cast<float>(at("m.qweight", in) - at("m.qzeros", in / group));
}

Tensor joined(const Scheme& scheme, const TestTensors& t) {
  auto all = join_tensors(scheme, GateUp::kNone, t.list());
  EXPECT_TRUE(all.ok()) << all.error().message;
  EXPECT_EQ(all->size(), 1u);
  EXPECT_EQ(all->front().tensor.name, "m.weight");
  return all->front().tensor;
}

// Rows read in pieces must equal the rows read at once.
void expect_pieces(const Tensor& tensor) {
  const uint64_t rows = tensor.shape[0], bytes = tensor.row_bytes();
  std::vector<std::byte> whole(tensor.bytes()), pieces(tensor.bytes());
  tensor.read_rows(0, rows, whole.data());
  for (uint64_t first = 0; first < rows; first += 5)
    tensor.read_rows(first, std::min<uint64_t>(5, rows - first), pieces.data() + first * bytes);
  EXPECT_EQ(whole, pieces);
}

struct Shape {
  uint64_t outputs, inputs, group;
};
constexpr Shape kShapes[] = {{8, 32, 32}, {24, 256, 128}, {136, 96, 32}, {16, 128, 64}};

TEST(IntegerWeights, OfGptqAreThoseOfTheNaiveTwin) {
  for (const Shape& shape : kShapes)
    for (const uint32_t bits : {4U, 8U})
      for (const uint32_t added : {0U, 1U})
        for (const bool symmetric : {false, true}) {
          const uint64_t n = 32 / bits, groups = shape.inputs / shape.group;
          TestTensors t;
          t.random("m.qweight", StoredType::kI32, {shape.inputs / n, shape.outputs});
          t.scales("m.scales", {groups, shape.outputs});
          const uint32_t middle = (bits == 4 ? 0x88888888U : 0x80808080U) -
                                  added * (bits == 4 ? 0x11111111U : 0x01010101U);
          if (symmetric) {
            t.add("m.qzeros", StoredType::kI32, {groups, shape.outputs / n},
                  std::vector<uint32_t>(groups * shape.outputs / n, middle));
          } else {
            t.random("m.qzeros", StoredType::kI32, {groups, shape.outputs / n});
          }
          const Tensor tensor = joined(
              {.method = Method::kGptq, .bits = bits, .group = shape.group, .zero_added = added},
              t);
          EXPECT_EQ(tensor.dtype, bits == 4 ? (symmetric ? DType::kQ4_0 : DType::kQ4_1)
                                            : (symmetric ? DType::kQ8_0 : DType::kF16));
          const std::vector<float> got = floats_of(tensor);
          for (uint64_t i = 0; i < got.size(); ++i) {
            const float wanted =
                gptq_twin(t, bits, shape.group, i / shape.inputs, i % shape.inputs, added);
            const float allowed = symmetric ? 0 : bits == 4 ? 0.02F / 64 : std::fabs(wanted) / 2048;
            ASSERT_NEAR(got[i], wanted, allowed) << i;
          }
          expect_pieces(tensor);
        }
}

TEST(IntegerWeights, OfGroupsThatDoNotLieTogetherAreFloat16) {
  for (const bool in_order : {false, true}) {
    TestTensors t;
    t.random("m.qweight", StoredType::kI32, {16, 16});
    t.random("m.qzeros", StoredType::kI32, {4, 2});
    t.scales("m.scales", {4, 16});
    std::vector<uint32_t> groups;
    for (uint32_t i = 0; i < 128; ++i) groups.push_back(in_order ? i / 32 : i % 4);
    t.add("m.g_idx", StoredType::kI32, {128}, groups);
    const Tensor tensor =
        joined({.method = Method::kGptq, .bits = 4, .group = 32, .zero_added = 1}, t);
    EXPECT_EQ(tensor.dtype, in_order ? DType::kQ4_1 : DType::kF16);
    const std::vector<float> got = floats_of(tensor);
    for (uint64_t i = 0; i < got.size(); ++i) {
      const float wanted = gptq_twin(t, 4, 32, i / 128, i % 128, 1);
      ASSERT_NEAR(got[i], wanted, in_order ? 0.02F / 64 : std::fabs(wanted) / 2048) << i;
    }
  }
}

TEST(IntegerWeights, OfAwqAreThoseOfTheNaiveTwin) {
  for (const Shape& shape : kShapes) {
    TestTensors t;
    t.random("m.qweight", StoredType::kI32, {shape.inputs, shape.outputs / 8});
    t.random("m.qzeros", StoredType::kI32, {shape.inputs / shape.group, shape.outputs / 8});
    t.scales("m.scales", {shape.inputs / shape.group, shape.outputs});
    const Tensor tensor = joined({.method = Method::kAwq, .bits = 4, .group = shape.group}, t);
    EXPECT_EQ(tensor.dtype, DType::kQ4_1);
    const std::vector<float> got = floats_of(tensor);
    for (uint64_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], awq_twin(t, shape.group, i / shape.inputs, i % shape.inputs), 0.02F / 64)
          << i;
    expect_pieces(tensor);
  }
}

// Weights are words of rows, or bytes; there is one scale per group, per output or for the matrix.
TEST(IntegerWeights, OfCompressedTensorsAreThoseOfTheNaiveTwin) {
  constexpr uint64_t kOutputs = 12, kInputs = 96;
  for (const std::vector<uint64_t>& grid : {std::vector<uint64_t>{12, 3}, {12, 1}, {12}, {1}, {}})
    for (const uint32_t bits : {4U, 8U}) {
      const uint64_t n = 32 / bits;
      TestTensors t;
      t.random("m.weight_packed", StoredType::kI32, {kOutputs, kInputs / n});
      t.add("m.weight_shape", StoredType::kI64, {2}, std::vector<int64_t>{kOutputs, kInputs});
      t.scales("m.weight_scale", grid);
      const Tensor tensor = joined({.method = Method::kCompressed}, t);
      EXPECT_EQ(tensor.dtype, bits == 4 ? DType::kQ4_0 : DType::kQ8_0);
      const std::vector<float> got = floats_of(tensor);
      const uint64_t columns = grid.size() == 2 ? grid[1] : 1;
      for (uint64_t i = 0; i < got.size(); ++i) {
        const uint64_t out = i / kInputs, in = i % kInputs;
        const uint32_t code =
            word(*t.find("m.weight_packed"), i / n) >> (in % n * bits) & ((1U << bits) - 1);
        const bool each = !grid.empty() && grid[0] == kOutputs;
        const uint64_t at = each ? out * columns + in * columns / kInputs : 0;
        const float scale = half(*t.find("m.weight_scale"), at);
        ASSERT_EQ(got[i], scale * static_cast<float>(int(code) - (1 << (bits - 1)))) << i;
      }
      expect_pieces(tensor);
    }
}

TEST(IntegerWeights, OfCompressedTensorsMayHaveZeroPoints) {
  TestTensors t;  // 12 outputs: the words of zero points are padded to 16
  t.random("m.weight_packed", StoredType::kI32, {12, 8});
  t.add("m.weight_shape", StoredType::kI64, {2}, std::vector<int64_t>{12, 64});
  t.scales("m.weight_scale", {12, 2});
  t.random("m.weight_zero_point", StoredType::kI32, {2, 2});
  const Tensor tensor = joined({.method = Method::kCompressed}, t);
  EXPECT_EQ(tensor.dtype, DType::kQ4_1);
  const std::vector<float> got = floats_of(tensor);
  for (uint64_t i = 0; i < got.size(); ++i) {
    const uint64_t out = i / 64, in = i % 64, group = in / 32;
    const int code = int(word(*t.find("m.weight_packed"), i / 8) >> (in % 8 * 4) & 15);
    const int zero =
        int(word(*t.find("m.weight_zero_point"), out / 8 * 2 + group) >> (out % 8 * 4) & 15);
    const float scale = half(*t.find("m.weight_scale"), out * 2 + group);
    ASSERT_NEAR(got[i], scale * static_cast<float>(code - zero), scale / 64) << i;
  }
}

TEST(IntegerWeights, OfBytesAreSigned) {
  for (const bool zeros : {false, true}) {
    TestTensors t;
    t.random("m.weight", StoredType::kI8, {4, 64});
    t.scales("m.weight_scale", {4, 1});
    if (zeros) t.random("m.weight_zero_point", StoredType::kI8, {4, 1});
    const Tensor tensor = joined({.method = Method::kCompressed}, t);
    EXPECT_EQ(tensor.dtype, zeros ? DType::kF16 : DType::kQ8_0);
    const std::vector<float> got = floats_of(tensor);
    for (uint64_t i = 0; i < got.size(); ++i) {
      const auto byte = [&](const char* name, uint64_t at) {
        return int(static_cast<int8_t>(t.find(name)->data[at]));
      };
      const int code = byte("m.weight", i) - (zeros ? byte("m.weight_zero_point", i / 64) : 0);
      const float wanted = half(*t.find("m.weight_scale"), i / 64) * static_cast<float>(code);
      ASSERT_NEAR(got[i], wanted, zeros ? std::fabs(wanted) / 2048 : 0) << i;
    }
  }
}

}  // namespace
}  // namespace kvick::io
