// Linear layers of BF16 by products of bfloat16.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/formats/test_weights.h"
#include "kernels/linear/matmul.h"
#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

// Rounded inputs with their memory.
struct Tokens {
  Tokens(const Table& table, std::vector<float> values, uint32_t inputs)
      : x(std::move(values)), memory(std::max<size_t>(1, x.size() * sizeof(uint16_t))) {
    a = {.tokens = static_cast<uint32_t>(x.size() / inputs),
         .inputs = inputs,
         .x = x.data(),
         .q = {},
         .scale = {},
         .sums = {},
         .rounded = {memory.as<uint16_t>(), x.size()}};
    table.round_inputs(a, {0, a.tokens}, {0, a.groups()});
  }
  Tokens(const Tokens&) = delete;
  std::vector<float> x;
  base::Buffer memory;
  Activations a;
};

// Rounds to nearest, ties to even; subnormal numbers become zero.
float rounded(float value) {
  return std::abs(value) < 0x1p-126F ? 0.0F : bf16_to_f32(f32_to_bf16(value));
}

// The definition, with its order: of a pair of inputs, the second product is added first, with a
// rounding after each. A product of two bfloat16 numbers is exact in float32.
std::vector<float> naive(const Weights& w, const std::vector<float>& x, size_t stride) {
  const uint32_t inputs = w.packed.inputs;
  std::vector<float> y(x.size() / inputs * stride, -7.0F), row(inputs);
  for (uint32_t r = 0; r < w.packed.rows; ++r) {
    to_f32(DType::kBF16, w.source.data() + dtype_bytes(DType::kBF16, size_t{r} * inputs), inputs,
           row.data());
    for (size_t t = 0; t < x.size() / inputs; ++t) {
      float sum = 0;
      for (uint32_t i = 0; i < inputs; i += 2)
        for (const uint32_t j : {i + 1, i}) sum += rounded(row[j]) * rounded(x[t * inputs + j]);
      y[t * stride + r] = sum;
    }
  }
  return y;
}

class MatmulBf16 : public testing::TestWithParam<base::Isa> {
 protected:
  void SetUp() override {
    if (!base::isa_supported(GetParam()) || rounding_table(GetParam()) == nullptr)
      GTEST_SKIP() << "no products of bfloat16";
    table = *rounding_table(GetParam());
  }
  std::vector<float> multiply(const Weights& w, const Tokens& tokens, size_t stride) const {
    std::vector<float> y(tokens.a.tokens * stride, -7.0F);
    table.matmul_rounded(w.packed, tokens.a, y.data(), stride, 0, w.packed.panels());
    return y;
  }
  static void expect_same(const std::vector<float>& a, const std::vector<float>& b,
                          const std::string& what) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(a[i], b[i]) << what << ", output " << i;
  }
  Table table{};
};

TEST_P(MatmulBf16, gives_the_bits_of_the_naive_twin_and_leaves_the_padding_alone) {
  for (const uint32_t rows : {5U, 16U, 44U, 53U})           // 1 to 4 panels
    for (const uint32_t inputs : {32U, 96U, 1024U, 1056U})  // a chunk has 1024
      for (const uint32_t count : {1U, 2U, 7U, 8U, 9U, 23U}) {
        const Weights w(DType::kBF16, rows, inputs, rows);
        const Tokens tokens(table, random_values(size_t{count} * inputs, 3), inputs);
        expect_same(multiply(w, tokens, rows + 3), naive(w, tokens.x, rows + 3),
                    fmt::format("{} x {}, {} tokens", rows, inputs, count));
      }
}

TEST_P(MatmulBf16, gives_a_token_the_same_bits_in_every_batch) {
  const uint32_t rows = 5 * kPanel - 3;
  for (const uint32_t inputs : {96U, 2080U}) {
    const Weights w(DType::kBF16, rows, inputs, 11);
    const std::vector<float> x = random_values(size_t{40} * inputs, 5);
    const std::vector<float> all = multiply(w, Tokens(table, x, inputs), rows);
    for (uint32_t n = 1; n < 40; ++n) {
      const uint32_t first = (n * 7) % (41 - n);
      const auto* begin = x.data() + size_t{first} * inputs;
      const Tokens some(table, {begin, begin + size_t{n} * inputs}, inputs);
      const std::vector<float> y = multiply(w, some, rows);
      ASSERT_EQ(std::memcmp(y.data(), all.data() + first * rows, y.size() * sizeof(float)), 0)
          << inputs << " inputs, tokens " << first << " to " << first + n;
    }
  }
}

TEST_P(MatmulBf16, gives_the_same_bits_however_weights_are_asked_for) {
  const uint32_t rows = 5 * kPanel - 3, inputs = 2080;
  const Weights w(DType::kBF16, rows, inputs, 14);
  Tokens token(table, random_values(inputs, 15), inputs);
  const std::vector<float> twice = multiply(w, token, rows);
  for (const ReadAhead how : {ReadAhead::kOnce, ReadAhead::kNone}) {
    token.a.read_ahead = how;
    expect_same(multiply(w, token, rows), twice, "one token");
  }
}

// Passes of 256 tokens and more, chunks of 1024 inputs, panels in threes.
TEST_P(MatmulBf16, gives_the_same_bits_in_any_passes_and_pieces) {
  const uint32_t rows = 7 * kPanel - 3, count = 290;
  for (const uint32_t inputs : {64U, 2112U}) {
    const Weights w(DType::kBF16, rows, inputs, inputs);
    const Tokens tokens(table, random_values(size_t{count} * inputs, 6), inputs);
    const std::vector<float> all = multiply(w, tokens, rows);
    for (const uint32_t t : {0U, 15U, 16U, 255U, 256U, 289U}) {
      const auto* begin = tokens.x.data() + size_t{t} * inputs;
      const std::vector<float> y =
          multiply(w, Tokens(table, {begin, begin + inputs}, inputs), rows);
      EXPECT_EQ(std::memcmp(y.data(), all.data() + size_t{t} * rows, rows * sizeof(float)), 0)
          << inputs << " inputs, token " << t;
    }
    std::vector<float> y(all.size(), -7.0F);
    table.matmul_rounded(w.packed, tokens.a, y.data(), rows, 2, 4);
    table.matmul_rounded(w.packed, tokens.a, y.data(), rows, 1, 1);
    EXPECT_EQ(std::count(y.begin(), y.begin() + 2 * kPanel, -7.0F), 2 * kPanel);
    EXPECT_EQ(y[4 * kPanel], -7.0F);
    table.matmul_rounded(w.packed, tokens.a, y.data(), rows, 0, 2);
    table.matmul_rounded(w.packed, tokens.a, y.data(), rows, 4, 7);
    EXPECT_EQ(std::memcmp(y.data(), all.data(), y.size() * sizeof(float)), 0) << inputs;
    EXPECT_THROW(table.matmul_rounded(w.packed, tokens.a, y.data(), rows, 0, 8), base::Bug);
  }
}

TEST_P(MatmulBf16, rounds_inputs_to_nearest_even_in_any_pieces) {
  const uint32_t inputs = 96, count = 37;
  std::vector<float> x = random_values(size_t{count} * inputs, 9);
  for (size_t i = 0; i < x.size(); i += 5) {  // ties
    uint32_t bits = 0;
    std::memcpy(&bits, &x[i], sizeof bits);
    bits = (bits & 0xffff0000U) | 0x8000U;
    std::memcpy(&x[i], &bits, sizeof bits);
  }
  x[7] = 1e-39F;
  Tokens whole(table, x, inputs), pieces(table, x, inputs);
  std::fill_n(pieces.a.rounded.data(), x.size(), uint16_t{0x4242});
  for (const Range tokens : {Range{0, 5}, Range{5, 33}, Range{33, 37}})
    for (const Range groups : {Range{0, 2}, Range{2, 3}})
      table.round_inputs(pieces.a, tokens, groups);
  for (uint32_t t = 0; t < count; ++t)
    for (uint32_t i = 0; i < inputs; ++i) {
      const TokenPlace place = token_place(count, t);
      const size_t at = place.first * inputs + size_t{i / kGroup} * place.tile_tokens * kGroup +
                        place.index * kGroup + i % kGroup;
      ASSERT_EQ(bf16_to_f32(whole.a.rounded[at]), rounded(x[t * inputs + i])) << t << ", " << i;
      ASSERT_EQ(pieces.a.rounded[at], whole.a.rounded[at]) << t << ", " << i;
    }
}

TEST_P(MatmulBf16, makes_every_output_of_a_token_with_nan_nan_and_no_other) {
  const Weights w(DType::kBF16, 20, 64, 19);
  std::vector<float> x = random_values(size_t{3} * 64, 8);
  x[64 + 40] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = multiply(w, Tokens(table, x, 64), 20);
  for (uint32_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
}

TEST_P(MatmulBf16, treats_no_tokens_as_nothing_to_do) {
  const Weights w(DType::kBF16, 16, 32, 1);
  const Tokens none(table, {}, 32);
  table.matmul_rounded(w.packed, none.a, nullptr, 0, 0, 1);
}

TEST_P(MatmulBf16, is_for_bf16_weights_and_rounded_inputs_only) {
  const Weights half(DType::kF16, 16, 32, 1), w(DType::kBF16, 16, 32, 1);
  Tokens tokens(table, random_values(32, 1), 32);
  float y[16];
  EXPECT_THROW(table.matmul_rounded(half.packed, tokens.a, y, 16, 0, 1), base::Bug);
  tokens.a.rounded = {};
  EXPECT_THROW(table.matmul_rounded(w.packed, tokens.a, y, 16, 0, 1), base::Bug);
}

INSTANTIATE_TEST_SUITE_P(Every, MatmulBf16, testing::ValuesIn(base::kIsas),
                         [](const auto& isa) { return std::string(base::isa_name(isa.param)); });

TEST(RoundingTable, adds_products_of_bfloat16_to_the_table_and_changes_nothing_else) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    const Table& plain = table(isa);
    EXPECT_TRUE(plain.matmul_rounded == nullptr && plain.round_inputs == nullptr);
    const Table* rounding = rounding_table(isa);
    EXPECT_EQ(rounding != nullptr, isa >= base::Isa::kAvx512Bf16) << base::isa_name(isa);
    if (rounding == nullptr) continue;
    EXPECT_EQ(rounding, rounding_table(isa));
    EXPECT_TRUE(rounding->matmul_rounded && rounding->round_inputs);
    Table same = *rounding;
    same.matmul_rounded = plain.matmul_rounded;
    same.round_inputs = plain.round_inputs;
    EXPECT_EQ(std::memcmp(&same, &plain, sizeof plain), 0) << base::isa_name(isa);
  }
}

}  // namespace
}  // namespace kvick::kernels
