// The linear layers of prompts: weights and inputs of bfloat16, sums of float32.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/formats/test_weights.h"
#include "kernels/table/linear.h"
#include "kernels/table/table.h"

namespace kvick::kernels {

void fill_linear_emulated(Table& table);  // matmul_tiles_emulated_test.cc

namespace {

// Rounded rows of inputs.
struct Tokens {
  Tokens(const Table& table, std::vector<float> values, uint32_t inputs) : x(std::move(values)) {
    a = {.tokens = static_cast<uint32_t>(x.size() / inputs),
         .inputs = inputs,
         .x = x.data(),
         .values = {}};
    room(a);
    for (uint32_t tile = 0; tile < a.tiles(); ++tile) table.round_tile(a, tile);
  }
  // Room for the outputs of a matrix, which are the inputs of the next.
  Tokens(uint32_t tokens, uint32_t inputs) {
    a = {.tokens = tokens, .inputs = inputs, .x = nullptr, .values = {}};
    room(a);
  }
  Tokens(const Tokens&) = delete;

  std::vector<float> x;
  base::Buffer memory;
  PromptActivations a;

 private:
  void room(PromptActivations& of) {
    const size_t size = PromptActivations::size(of.tokens, of.inputs);
    memory = base::Buffer(std::max<size_t>(1, size * sizeof(uint16_t)));
    of.values = {memory.as<uint16_t>(), size};
    std::fill(of.values.begin(), of.values.end(), uint16_t{0x4242});
  }
};

// Rounds to nearest, ties to even.
double rounded(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000U;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

std::vector<DType> tile_types() {
  std::vector<DType> types = all_types();
  std::erase_if(types, [](DType type) { return !has_prompt_matmul(type); });
  return types;
}

// Compares y with the definition. A weight with a minimum is rounded once less than by to_f32, so
// near the middle of two numbers it may become the other one. A float32 sum of n terms is off by at
// most n * 2^-24 of the sum of their magnitudes.
void expect_naive(const Weights& w, const std::vector<float>& x, const std::vector<float>& y,
                  size_t stride) {
  const uint32_t inputs = w.packed.inputs;
  std::vector<float> row(inputs);
  for (uint32_t r = 0; r < w.packed.rows; ++r) {
    to_f32(w.packed.dtype, w.source.data() + dtype_bytes(w.packed.dtype, size_t{r} * inputs),
           inputs, row.data());
    for (size_t t = 0; t < x.size() / inputs; ++t) {
      double dot = 0, magnitude = 0, either = 0;
      for (uint32_t i = 0; i < inputs; ++i) {
        const double in = rounded(x[t * inputs + i]), weight = rounded(row[i]);
        dot += in * weight;
        magnitude += std::abs(in * weight);
        if (pack_format(w.packed.dtype).has_min)
          either += std::abs(in) * std::abs(rounded(row[i] + 0x1p-16F * std::abs(row[i]) + 1e-6F) -
                                            rounded(row[i] - 0x1p-16F * std::abs(row[i]) - 1e-6F));
      }
      ASSERT_NEAR(y[t * stride + r], dot, inputs * 0x1p-24 * magnitude + either + 1e-30)
          << dtype_info(w.packed.dtype).name << " row " << r << " token " << t;
    }
  }
}

class MatmulTiles : public testing::Test {
 protected:
  void SetUp() override {
    if (base::isa_supported(base::Isa::kAmx)) {
      table = kernels::table(base::Isa::kAmx);
      return;
    }
    const base::CpuFeatures& cpu = base::cpu_features();
    if (!base::isa_supported(base::Isa::kAvx512Bf16) || !cpu.avx512_vbmi)
      GTEST_SKIP() << "neither AMX nor the vectors that unpack weights for its tiles";
    table = kernels::table(base::Isa::kAvx512Bf16);
    fill_linear_emulated(table);
  }
  std::vector<float> multiply(const Weights& w, const Tokens& tokens, size_t stride) const {
    std::vector<float> y(tokens.a.tokens * stride, -7.0F);
    table.matmul_prompt(w.packed, tokens.a, y.data(), stride, 0, w.packed.panels());
    return y;
  }
  Table table{};
};

TEST_F(MatmulTiles, agree_with_the_naive_twin_for_every_format_and_leave_the_padding_alone) {
  for (const DType type : tile_types())
    for (const uint32_t rows : {5u, 16u, 44u})
      for (const uint32_t count : {1u, 23u, 48u}) {
        const uint32_t inputs = whole_blocks(type, dtype_info(type).block == 256 ? 512 : 352),
                       stride = rows + 3;
        const Weights w(type, rows, inputs, rows);
        const Tokens tokens(table, random_values(size_t{count} * inputs, 3), inputs);
        const std::vector<float> y = multiply(w, tokens, stride);
        expect_naive(w, tokens.x, y, stride);
        for (uint32_t t = 0; t < count; ++t)
          for (uint32_t r = rows; r < stride; ++r) ASSERT_EQ(y[t * stride + r], -7.0F);
      }
}

TEST_F(MatmulTiles, give_a_token_the_same_bits_in_every_batch) {
  for (const DType type : tile_types()) {
    const uint32_t rows = 37,
                   inputs = whole_blocks(type, dtype_info(type).block == 256 ? 768 : 608);
    const Weights w(type, rows, inputs, 11);
    const std::vector<float> x = random_values(size_t{40} * inputs, 5);
    const std::vector<float> all = multiply(w, Tokens(table, x, inputs), rows);
    for (uint32_t n = 1; n < 40; n += 3) {
      const uint32_t first = (n * 7) % (41 - n);
      const auto* begin = x.data() + size_t{first} * inputs;
      const Tokens some(table, {begin, begin + size_t{n} * inputs}, inputs);
      const std::vector<float> y = multiply(w, some, rows);
      ASSERT_EQ(std::memcmp(y.data(), all.data() + first * rows, y.size() * sizeof(float)), 0)
          << dtype_info(type).name << ", tokens " << first << " to " << first + n;
    }
  }
}

// Sums of 8 panels are kept for 512 tokens, over chunks of at most 9 groups of inputs.
TEST_F(MatmulTiles, give_the_same_bits_in_any_passes_and_pieces) {
  const uint32_t rows = 19 * kPanel - 3, count = 530;
  for (const uint32_t inputs : {32u, 288u, 320u, 576u, 2048u}) {
    const Weights w(DType::kQ4_0, rows, inputs, inputs);
    const std::vector<float> x = random_values(size_t{count} * inputs, 6);
    const std::vector<float> all = multiply(w, Tokens(table, x, inputs), rows);
    for (const uint32_t t : {0u, 15u, 16u, 511u, 512u, 529u}) {
      const auto* begin = x.data() + size_t{t} * inputs;
      const std::vector<float> y =
          multiply(w, Tokens(table, {begin, begin + inputs}, inputs), rows);
      EXPECT_EQ(std::memcmp(y.data(), all.data() + size_t{t} * rows, rows * sizeof(float)), 0)
          << inputs << " inputs, token " << t;
    }
    const Tokens tokens(table, x, inputs);
    std::vector<float> y(all.size(), -7.0F);
    table.matmul_prompt(w.packed, tokens.a, y.data(), rows, 9, 18);
    table.matmul_prompt(w.packed, tokens.a, y.data(), rows, 4, 4);
    EXPECT_EQ(std::count(y.begin(), y.begin() + 9 * kPanel, -7.0F), 9 * kPanel);
    EXPECT_EQ(y[18 * kPanel], -7.0F);
    table.matmul_prompt(w.packed, tokens.a, y.data(), rows, 0, 9);
    table.matmul_prompt(w.packed, tokens.a, y.data(), rows, 18, 19);
    EXPECT_EQ(std::memcmp(y.data(), all.data(), y.size() * sizeof(float)), 0) << inputs;
    EXPECT_THROW(table.matmul_prompt(w.packed, tokens.a, y.data(), rows, 0, 20), base::Bug);
  }
}

TEST_F(MatmulTiles, gate_as_the_steps_one_after_the_other_do) {
  const uint32_t rows = 352;
  for (const DType type : {DType::kQ8_0, DType::kQ4_1, DType::kBF16})
    for (const uint32_t inputs : {64u, 576u})
      for (const uint32_t count : {1u, 17u, 50u, 530u}) {
        const Weights gate(type, rows, inputs, 3), up(type, rows, inputs, 4);
        const Tokens tokens(table, random_values(size_t{count} * inputs, 6), inputs);
        std::vector<float> y = multiply(gate, tokens, rows);
        const std::vector<float> other = multiply(up, tokens, rows);
        table.silu_mul(y.data(), other.data(), y.size(), y.data());
        const Tokens expected(table, y, rows);
        Tokens got(count, rows);
        table.matmul_prompt_gated(gate.packed, up.packed, tokens.a, got.a, 0, 8);
        table.matmul_prompt_gated(gate.packed, up.packed, tokens.a, got.a, 8, rows / kPanel);
        for (uint32_t t = 0; t < count; ++t)
          for (uint32_t g = 0; g < rows / kGroup; ++g) {
            const size_t at = t % kTokenTile * kGroup;
            ASSERT_EQ(std::memcmp(got.a.at(t / kTokenTile, g) + at,
                                  expected.a.at(t / kTokenTile, g) + at, kGroup * 2),
                      0)
                << dtype_info(type).name << " token " << t << " of " << count << ", group " << g;
          }
        // Products with these inputs must not depend on what is behind the last token.
        const Weights down(DType::kQ8_0, 16, rows, 5);
        EXPECT_EQ(multiply(down, got, 16), multiply(down, expected, 16));
      }
}

TEST_F(MatmulTiles, make_every_output_of_a_token_with_nan_nan_and_no_other) {
  const Weights w(DType::kQ5_1, 20, 64, 19);
  std::vector<float> x = random_values(size_t{3} * 64, 8);
  x[64 + 40] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = multiply(w, Tokens(table, x, 64), 20);
  for (uint32_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
}

TEST_F(MatmulTiles, treat_no_tokens_as_nothing_to_do) {
  const Weights w(DType::kQ4_0, 16, 32, 1);
  const Tokens none(table, {}, 32);
  table.matmul_prompt(w.packed, none.a, nullptr, 0, 0, 1);
}

TEST_F(MatmulTiles, are_not_there_for_float32) {
  const Weights w(DType::kF32, 16, 32, 1);
  const Tokens tokens(table, random_values(32, 1), 32);
  float y[16];
  EXPECT_THROW(table.matmul_prompt(w.packed, tokens.a, y, 16, 0, 1), base::Bug);
}

}  // namespace
}  // namespace kvick::kernels
