#include "kernels/linear/matmul.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/formats/test_weights.h"
#include "kernels/table/table.h"

namespace kvick::kernels {

void fill_linear_avx_vnni_emulated(Table& table);  // avx2/matmul_avxvnni_emulated_test.cc

namespace {

using base::Isa;

std::vector<Isa> isas() {
  std::vector<Isa> supported;
  for (const Isa isa : base::kIsas)
    if (base::isa_supported(isa)) supported.push_back(isa);
  return supported;
}

// Activations with the memory that they point to.
struct Tokens {
  Tokens(const Table& table, std::vector<float> values, uint32_t inputs)
      : x(std::move(values)), q(x.size()), scale(x.size() / 32), sums(x.size() / 16) {
    a = {static_cast<uint32_t>(x.size() / inputs), inputs, x.data(), q, scale, sums};
    table.quantise(a, {0, a.tokens}, {0, a.groups()});
  }
  Tokens(const Tokens&) = delete;
  std::vector<float> x;
  std::vector<int8_t> q;
  std::vector<float> scale;
  std::vector<int32_t> sums;
  Activations a;
};

// Returns an input as the kernels see it: dequantised for block formats, unchanged for float
// formats.
double input_of(DType type, Tokens& tokens, uint32_t t, uint32_t i) {
  if (!pack_format(type).quantised) return tokens.x[size_t{t} * tokens.a.inputs + i];
  const GroupPlace at = group_place(tokens.a, token_place(tokens.a.tokens, t), i / kGroup);
  return double{*at.scale} * at.q[i % kGroup];
}

// Compares y with the definition. Every rounding of a float32 sum of n terms is at most 2^-24 of
// the sum of their magnitudes. With scale * u and min of opposite signs, these are up to 4 times
// the largest |weight| of a group of random codes.
void expect_naive(const Weights& w, Tokens& tokens, const std::vector<float>& y, size_t stride) {
  const uint32_t inputs = w.packed.inputs;
  const DType type = w.packed.dtype;
  std::vector<float> row(inputs);
  for (uint32_t r = 0; r < w.packed.rows; ++r) {
    to_f32(type, w.source.data() + dtype_bytes(type, size_t{r} * inputs), inputs, row.data());
    for (uint32_t t = 0; t < tokens.a.tokens; ++t) {
      double dot = 0, magnitude = 0;
      for (uint32_t g = 0; g < inputs; g += kGroup) {
        double largest = 0, sum = 0;
        for (uint32_t i = g; i < g + kGroup; ++i) {
          const double x = input_of(type, tokens, t, i);
          dot += row[i] * x;
          sum += std::abs(x);
          largest = std::max(largest, std::abs(double{row[i]}));
        }
        magnitude += 4 * largest * sum;
      }
      const double terms = pack_format(type).quantised ? 2.0 * inputs / 16 + 8 : inputs;
      ASSERT_NEAR(y[t * stride + r], dot, terms * 0x1p-24 * magnitude)
          << dtype_info(type).name << " row " << r << " token " << t << " of " << tokens.a.tokens;
    }
  }
}

class Matmul : public testing::TestWithParam<Isa> {
 protected:
  std::vector<float> multiply(const Weights& w, const Tokens& tokens, size_t stride) const {
    std::vector<float> y(tokens.a.tokens * stride, -7.0f);
    table.matmul(w.packed, tokens.a, y.data(), stride, 0, w.packed.panels());
    return y;
  }
  const Table& table = kernels::table(GetParam());
};

TEST_P(Matmul, agrees_with_the_naive_twin_for_every_format_and_leaves_the_padding_alone) {
  for (const DType type : all_types())
    for (const uint32_t rows : {5u, 16u, 44u}) {
      const uint32_t inputs = whole_blocks(type, dtype_info(type).block == 256 ? 512 : 160),
                     stride = rows + 3;
      const Weights w(type, rows, inputs, rows);
      for (const uint32_t count : {23u, 103u}) {
        Tokens tokens(table, random_values(size_t{count} * inputs, 3), inputs);
        const std::vector<float> y = multiply(w, tokens, stride);
        expect_naive(w, tokens, y, stride);
        for (uint32_t t = 0; t < count; ++t)
          for (uint32_t r = rows; r < stride; ++r) ASSERT_EQ(y[t * stride + r], -7.0f);
      }
    }
}

TEST_P(Matmul, gives_a_token_the_same_bits_in_every_batch) {
  for (const DType type : all_types()) {
    const uint32_t rows = 21, inputs = whole_blocks(type, dtype_info(type).block == 256 ? 256 : 96);
    const Weights w(type, rows, inputs, 11);
    const std::vector<float> x = random_values(size_t{40} * inputs, 5);
    const std::vector<float> all = multiply(w, Tokens(table, x, inputs), rows);
    for (uint32_t n = 1; n < 40; ++n) {
      const uint32_t first = (n * 7) % (41 - n);
      const auto* begin = x.data() + size_t{first} * inputs;
      const Tokens some(table, std::vector<float>(begin, begin + size_t{n} * inputs), inputs);
      const std::vector<float> y = multiply(w, some, rows);
      ASSERT_EQ(std::memcmp(y.data(), all.data() + first * rows, y.size() * sizeof(float)), 0)
          << dtype_info(type).name << ", tokens " << first << " to " << first + n;
    }
  }
}

TEST_P(Matmul, gives_the_same_bits_however_weights_are_asked_for) {
  for (const DType type : all_types()) {
    const uint32_t rows = 21,
                   inputs = whole_blocks(type, dtype_info(type).block == 256 ? 512 : 160);
    const Weights w(type, rows, inputs, 14);
    Tokens token(table, random_values(inputs, 15), inputs);
    const std::vector<float> twice = multiply(w, token, rows);
    for (const ReadAhead how : {ReadAhead::kOnce, ReadAhead::kNone}) {
      token.a.read_ahead = how;
      const std::vector<float> y = multiply(w, token, rows);
      ASSERT_EQ(std::memcmp(y.data(), twice.data(), y.size() * sizeof(float)), 0)
          << dtype_info(type).name;
    }
  }
}

// Three panels of Q8_0 are multiplied together from 8 tokens on, panels one by one otherwise.
TEST_P(Matmul, gives_the_same_bits_whether_panels_are_taken_together_or_not) {
  const uint32_t rows = 7 * kPanel - 5;
  for (const uint32_t inputs : {32u, 160u, 256u, 544u, 576u}) {
    const Weights w(DType::kQ8_0, rows, inputs, inputs);
    const std::vector<float> x = random_values(size_t{41} * inputs, 7);
    std::vector<float> one;
    for (uint32_t t = 0; t < 41; ++t) {
      const auto* begin = x.data() + size_t{t} * inputs;
      const Tokens token(table, std::vector<float>(begin, begin + inputs), inputs);
      const std::vector<float> y = multiply(w, token, rows);
      one.insert(one.end(), y.begin(), y.end());
    }
    for (uint32_t n = 7; n <= 41; ++n) {
      const Tokens some(table, std::vector<float>(x.data(), x.data() + size_t{n} * inputs), inputs);
      std::vector<float> y(size_t{n} * rows);
      // In pieces, as the threads of a pool take them.
      const uint32_t cut = n % w.packed.panels();
      table.matmul(w.packed, some.a, y.data(), rows, 0, cut);
      table.matmul(w.packed, some.a, y.data(), rows, cut, w.packed.panels());
      ASSERT_EQ(std::memcmp(y.data(), one.data(), y.size() * sizeof(float)), 0)
          << inputs << " inputs, " << n << " tokens";
    }
  }
}

// Three panels of any type are multiplied together from 96 tokens on, at most 256 at once.
TEST_P(Matmul, gives_a_token_the_same_bits_in_a_prompt) {
  const uint32_t rows = 7 * kPanel - 5;
  for (const DType type : all_types())
    for (const uint32_t blocks : {1u, 2u, 5u}) {
      const uint32_t inputs =
          whole_blocks(type, blocks * (dtype_info(type).block == 256 ? 256 : 96));
      const Weights w(type, rows, inputs, blocks);
      const std::vector<float> x = random_values(size_t{275} * inputs, 8);
      std::vector<float> few;
      for (uint32_t t = 0; t < 275; t += 11) {
        const auto* begin = x.data() + size_t{t} * inputs;
        const Tokens tokens(table, std::vector<float>(begin, begin + size_t{11} * inputs), inputs);
        const std::vector<float> y = multiply(w, tokens, rows);
        few.insert(few.end(), y.begin(), y.end());
      }
      for (const uint32_t n : {95u, 96u, 101u, 256u, 275u}) {
        const Tokens prompt(table, std::vector<float>(x.data(), x.data() + size_t{n} * inputs),
                            inputs);
        std::vector<float> y(size_t{n} * rows);
        // In pieces, as the threads of a pool take them.
        table.matmul(w.packed, prompt.a, y.data(), rows, 0, n % 7);
        table.matmul(w.packed, prompt.a, y.data(), rows, n % 7, w.packed.panels());
        ASSERT_EQ(std::memcmp(y.data(), few.data(), y.size() * sizeof(float)), 0)
            << dtype_info(type).name << ", " << inputs << " inputs, " << n << " tokens";
      }
    }
}

TEST_P(Matmul, gives_the_same_bits_when_there_are_more_tokens_than_one_pass_takes) {
  const uint32_t rows = 7, inputs = 8192, tokens = 90;
  const Weights w(DType::kQ4_1, rows, inputs, 13);
  const std::vector<float> x = random_values(size_t{tokens} * inputs, 6);
  const std::vector<float> all = multiply(w, Tokens(table, x, inputs), rows);
  for (const uint32_t t : {0u, 47u, 48u, 63u, 64u, 80u, 89u}) {
    const auto* begin = x.data() + size_t{t} * inputs;
    const std::vector<float> y =
        multiply(w, Tokens(table, std::vector<float>(begin, begin + inputs), inputs), rows);
    EXPECT_EQ(std::memcmp(y.data(), all.data() + t * rows, rows * sizeof(float)), 0) << t;
  }
}

TEST_P(Matmul, computes_only_the_panels_it_is_asked_for) {
  const Weights w(DType::kQ8_0, 60, 64, 17);
  const Tokens tokens(table, random_values(size_t{3} * 64, 7), 64);
  const std::vector<float> all = multiply(w, tokens, 60);
  std::vector<float> y(3 * 60, -7.0f);
  table.matmul(w.packed, tokens.a, y.data(), 60, 1, 3);
  for (uint32_t t = 0; t < 3; ++t)
    for (uint32_t r = 0; r < 60; ++r)
      ASSERT_EQ(y[t * 60 + r], r >= 16 && r < 48 ? all[t * 60 + r] : -7.0f);
  table.matmul(w.packed, tokens.a, y.data(), 60, 2, 2);
  EXPECT_THROW(table.matmul(w.packed, tokens.a, y.data(), 60, 0, 5), base::Bug);
}

TEST_P(Matmul, does_not_saturate_on_extreme_codes_and_activations) {
  for (const DType type : all_types()) {
    if (!pack_format(type).quantised) continue;
    const DTypeInfo& info = dtype_info(type);
    for (const int fill : {0x00, 0x7f, 0x80, 0x81, 0xff}) {
      std::vector<std::byte> blocks(size_t{16} * info.block_bytes, static_cast<std::byte>(fill));
      for (size_t b = 0; b < 16; ++b) scale_with_one(type, blocks.data() + b * info.block_bytes);
      const Weights w(type, 16, info.block, blocks);
      std::vector<float> x(size_t{3} * info.block);
      for (uint32_t i = 0; i < info.block; ++i) {
        x[i] = 1;
        x[info.block + i] = -1;
        x[2 * info.block + i] = i % 2 == 0 ? 1.0f : -1.0f;
      }
      Tokens tokens(table, x, info.block);
      expect_naive(w, tokens, multiply(w, tokens, 16), 16);
    }
  }
}

TEST_P(Matmul, scales_by_every_exponent_of_mxfp4_exactly) {
  std::vector<std::byte> blocks(size_t{256} * 17, std::byte{0x91});  // ones and minus ones
  for (size_t e = 0; e < 256; ++e) blocks[e * 17] = static_cast<std::byte>(e);
  const Weights w(DType::kMXFP4, 256, 32, blocks);
  std::vector<float> x(32);
  x[3] = 127;
  const Tokens one(table, x, 32);
  const std::vector<float> y = multiply(w, one, 256);
  for (int e = 0; e < 248; ++e)  // 127 times larger scales overflow
    ASSERT_EQ(y[e], std::ldexp(127.0F, e - 128)) << e;
}

TEST_P(Matmul, makes_every_output_of_a_token_with_nan_or_infinity_nan_and_no_other) {
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       -std::numeric_limits<float>::infinity()};
  for (const float value : bad) {
    const Weights w(DType::kQ5_1, 20, 64, 19);
    std::vector<float> x = random_values(size_t{3} * 64, 8);
    x[64 + 40] = value;
    const std::vector<float> y = multiply(w, Tokens(table, x, 64), 20);
    for (uint32_t i = 0; i < 60; ++i) EXPECT_EQ(std::isnan(y[i]), i / 20 == 1) << i;
  }
}

TEST_P(Matmul, treats_no_tokens_as_nothing_to_do) {
  const Weights w(DType::kQ4_0, 16, 32, 1);
  Activations none{};
  none.inputs = 32;
  table.quantise(none, {0, 0}, {0, 1});
  table.matmul(w.packed, none, nullptr, 0, 0, 1);
}

TEST_P(Matmul, quantises_to_the_nearest_step_with_exact_sums) {
  const uint32_t inputs = 96, count = 21;
  std::vector<float> x = random_values(size_t{count} * inputs, 9);
  for (uint32_t i = 0; i < 32; ++i) x[i] = 0;
  for (uint32_t i = 32; i < 64; ++i) x[i] = 1e-38f;
  for (uint32_t i = 64; i < 96; ++i) x[i] = static_cast<float>(i) * 3e36f;
  Tokens tokens(table, x, inputs);
  for (uint32_t t = 0; t < count; ++t)
    for (uint32_t g = 0; g < inputs / kGroup; ++g) {
      const float* in = x.data() + size_t{t} * inputs + g * kGroup;
      const GroupPlace at = group_place(tokens.a, token_place(count, t), g);
      float max = 0;
      for (uint32_t i = 0; i < kGroup; ++i) max = std::max(max, std::abs(in[i]));
      EXPECT_EQ(*at.scale, max < kTinyActivation ? 0.0f : max / 127);
      int32_t sums[2] = {0, 0};
      for (uint32_t i = 0; i < kGroup; ++i) {
        const double steps = *at.scale == 0 ? 0 : double{in[i]} / *at.scale;
        EXPECT_NEAR(at.q[i], steps, 0.5 + 1e-4);
        sums[i / 16] += at.q[i];
      }
      EXPECT_EQ(*at.sums[0], sums[0]);
      EXPECT_EQ(*at.sums[1], sums[1]);
    }
}

TEST_P(Matmul, quantises_to_the_same_bits_as_the_scalar_twin) {
  const Table& scalar = kernels::table(Isa::kScalar);
  const uint32_t inputs = 224;
  std::vector<float> x = random_values(size_t{19} * inputs, 10);
  for (size_t i = 0; i < x.size(); i += 5) x[i] = std::round(x[i] * 8) * 0.0625f;  // ties
  x[100] = std::numeric_limits<float>::quiet_NaN();
  x[300] = std::numeric_limits<float>::infinity();
  Tokens expected(scalar, x, inputs), got(table, x, inputs);
  EXPECT_EQ(got.q, expected.q);
  EXPECT_EQ(got.sums, expected.sums);
  EXPECT_EQ(std::memcmp(got.scale.data(), expected.scale.data(), got.scale.size() * 4), 0);
}

TEST_P(Matmul, quantises_tokens_and_groups_in_any_pieces) {
  const uint32_t inputs = 224, count = 37;
  Tokens whole(table, random_values(size_t{count} * inputs, 11), inputs);
  Tokens pieces(table, whole.x, inputs);
  std::fill(pieces.q.begin(), pieces.q.end(), int8_t{0});
  std::fill(pieces.scale.begin(), pieces.scale.end(), 0.0f);
  std::fill(pieces.sums.begin(), pieces.sums.end(), 0);
  for (const Range tokens : {Range{0, 5}, Range{5, 33}, Range{33, 37}})
    for (const Range groups : {Range{0, 3}, Range{3, 4}, Range{4, 7}})
      table.quantise(pieces.a, tokens, groups);
  EXPECT_EQ(pieces.q, whole.q);
  EXPECT_EQ(pieces.scale, whole.scale);
  EXPECT_EQ(pieces.sums, whole.sums);
}

// Expects equal bits: integer products are exact in any way, and the operations after them are the
// same.
void expect_bits_of(const Table& first, const Table& other) {
  for (const DType type : all_types()) {
    const bool super = dtype_info(type).block == 256;
    for (const uint32_t some : super ? std::vector{256u, 768u} : std::vector{32u, 224u, 416u}) {
      const uint32_t inputs = whole_blocks(type, some);
      const uint32_t rows = 70, most = 101;  // 5 panels; blocks of 64 tokens, tiles of 16, a rest
      const Weights w(type, rows, inputs, inputs);
      const std::vector<float> x = random_values(size_t{most} * inputs, 12);
      for (const uint32_t n : {1u,  2u,  3u,  5u,  7u,  8u,  9u,  11u, 12u, 13u,
                               16u, 31u, 32u, 43u, 44u, 47u, 63u, 64u, 79u, most}) {
        const Tokens tokens(other, {x.begin(), x.begin() + size_t{n} * inputs}, inputs);
        std::vector<float> got(size_t{n} * rows), expected(got.size());
        other.matmul(w.packed, tokens.a, got.data(), rows, 0, 5);
        first.matmul(w.packed, tokens.a, expected.data(), rows, 0, 5);
        ASSERT_EQ(std::memcmp(got.data(), expected.data(), got.size() * sizeof(float)), 0)
            << dtype_info(type).name << ", " << n << " tokens of " << inputs;
      }
    }
  }
}

void expect_bits_of(Isa weaker, Isa isa) {
  if (!base::isa_supported(isa)) GTEST_SKIP() << "no " << base::isa_name(isa);
  expect_bits_of(table(weaker), table(isa));
}

#if defined(__x86_64__)
TEST(AvxVnni, gives_the_bits_of_avx2_for_every_format_and_number_of_tokens) {
  expect_bits_of(Isa::kAvx2, Isa::kAvxVnni);
}

TEST(AvxVnni, gives_the_bits_of_avx2_where_its_instruction_is_emulated) {
  if (!base::isa_supported(Isa::kAvx2)) GTEST_SKIP() << "no AVX2";
  Table emulated = table(Isa::kAvx2);
  fill_linear_avx_vnni_emulated(emulated);
  expect_bits_of(table(Isa::kAvx2), emulated);
}
#endif

TEST(Avx512Vnni, gives_the_bits_of_avx512_for_every_format_and_number_of_tokens) {
  expect_bits_of(Isa::kAvx512, Isa::kAvx512Vnni);
}

TEST(Avx512Bf16, gives_the_bits_of_avx512_for_every_format_and_number_of_tokens) {
  expect_bits_of(Isa::kAvx512, Isa::kAvx512Bf16);
}

TEST(Amx, gives_the_bits_of_avx512_for_every_format_and_number_of_tokens) {
  expect_bits_of(Isa::kAvx512, Isa::kAmx);
}

TEST(NeonI8mm, gives_the_bits_of_neon_dot_for_every_format_and_number_of_tokens) {
  expect_bits_of(Isa::kNeonDot, Isa::kNeonI8mm);
}

INSTANTIATE_TEST_SUITE_P(Every, Matmul, testing::ValuesIn(isas()),
                         [](const auto& isa) { return std::string(base::isa_name(isa.param)); });

}  // namespace
}  // namespace kvick::kernels
