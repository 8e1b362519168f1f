#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

constexpr size_t kSizes[] = {1, 2, 7, 8, 15, 16, 17, 31, 64, 100, 576, 577};

// Calls test(table) for every instruction set that this machine has.
template <typename Test>
void for_each_set(Test test) {
  for (const base::Isa isa : base::kIsas) {
    if (!base::isa_supported(isa)) continue;
    SCOPED_TRACE(base::isa_name(isa));
    test(table(isa));
  }
}

std::vector<float> random_floats(size_t n, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

TEST(ElementWise, RmsNormDividesByTheRootMeanSquare) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      const auto x = random_floats(n, 1), weight = random_floats(n, 2);
      double sum = 0;
      for (const float e : x) sum += double{e} * e;
      const double factor = 1 / std::sqrt(sum / static_cast<double>(n) + 1e-5);
      std::vector<float> y(n + 1, 77);
      table.rms_norm(x.data(), weight.data(), n, 1e-5F, y.data());
      for (size_t i = 0; i < n; ++i)
        EXPECT_NEAR(y[i], x[i] * factor * weight[i], 1e-6 * std::abs(y[i]) + 1e-30) << n;
      EXPECT_EQ(y[n], 77);
    }
  });
}

TEST(ElementWise, LayerNormCentresAndScales) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      auto x = random_floats(n, 3);
      for (float& e : x) e += 100;  // a mean far from zero must not cost the variance its digits
      const auto weight = random_floats(n, 4), bias = random_floats(n, 5);
      double mean = 0, variance = 0;
      for (const float e : x) mean += e / static_cast<double>(n);
      for (const float e : x) variance += (e - mean) * (e - mean) / static_cast<double>(n);
      std::vector<float> y(n + 1, 77);
      table.layer_norm(x.data(), weight.data(), bias.data(), n, 1e-5F, y.data());
      const double factor = 1 / std::sqrt(variance + 1e-5);
      for (size_t i = 0; i < n; ++i)
        EXPECT_NEAR(y[i], (x[i] - mean) * factor * weight[i] + bias[i], 2e-6 * (1 + factor)) << n;
      EXPECT_EQ(y[n], 77);
    }
  });
}

TEST(ElementWise, AxpyAddsAMultipleAndDotSumsProducts) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      const auto x = random_floats(n, 8), y = random_floats(n, 9);
      std::vector<float> sum = x;
      sum.push_back(77);
      table.axpy(sum.data(), 0.75F, y.data(), n);
      double product = 0, size = 0;
      for (size_t i = 0; i < n; ++i) {
        EXPECT_NEAR(sum[i], x[i] + 0.75 * y[i], 1e-6) << n;
        product += double{x[i]} * y[i];
        size += std::abs(double{x[i]} * y[i]);
      }
      EXPECT_EQ(sum[n], 77);
      EXPECT_NEAR(table.dot(x.data(), y.data(), n), product, 1e-6 * size) << n;
    }
  });
}

TEST(ElementWise, DotColumnsSumsTheProductsOfEachRow) {
  for_each_set([](const Table& table) {
    for (const DType type : {DType::kF32, DType::kF16, DType::kStatic8})
      for (const size_t dims : {1, 2, 5, 16})
        for (const size_t rows : kSizes) {
          const size_t stride = rows + 3, bytes = dtype_bytes(type, 1);
          for (const size_t queries : {1, 2, 3, 4, 6}) {
            const auto values = random_floats(stride * dims, 10, 40);
            const auto q = random_floats(queries * dims, 11);
            std::vector<std::byte> columns(stride * dims * bytes);
            from_f32(type, values.data(), values.size(), columns.data());
            std::vector<float> out(queries * (rows + 1), 77);
            const Columns shape = {.rows = rows, .stride = stride, .dims = dims};
            table.dot_columns(type, columns.data(), shape, q.data(), queries, out.data(), rows + 1);
            for (size_t i = 0; i < queries * rows; ++i) {
              const size_t query = i / rows, row = i % rows;
              double sum = 0, size = 0;
              for (size_t d = 0; d < dims; ++d) {
                float x;
                to_f32(type, columns.data() + (d * stride + row) * bytes, 1, &x);
                sum += double{x} * q[query * dims + d];
                size += std::abs(double{x} * q[query * dims + d]);
              }
              EXPECT_NEAR(out[query * (rows + 1) + row], sum, 1e-6 * size) << rows;
            }
            for (size_t query = 0; query < queries; ++query) {
              EXPECT_EQ(out[query * (rows + 1) + rows], 77);
              std::vector<float> alone(rows);
              table.dot_columns(type, columns.data(), shape, q.data() + query * dims, 1,
                                alone.data(), rows);
              for (size_t row = 0; row < rows; ++row)
                EXPECT_EQ(alone[row], out[query * (rows + 1) + row]) << rows;
            }
          }
        }
  });
}

// The scores of any range of rows equal those of the rows alone, and the products of the codes with
// queries rounded to 16 bits.
TEST(ElementWise, ScoreQuadsSumsTheProductsOfEachRow) {
  constexpr uint32_t kBlockRows = 64, kBlocks = 3;
  for_each_set([](const Table& table) {
    if (table.score_quads == nullptr) return;
    for (const uint32_t dims : {4, 16, 32, 36, 64, 100})
      for (const size_t queries : {1, 2, 3, 4, 6}) {
        std::mt19937 random(dims);
        std::vector<std::byte> codes(size_t{kBlocks} * kBlockRows * dims);
        for (std::byte& code : codes) code = static_cast<std::byte>(random() % 255 - 127);
        const std::byte* blocks[kBlocks];
        for (uint32_t b = 0; b < kBlocks; ++b) blocks[b] = &codes[size_t{b} * kBlockRows * dims];
        const auto q = random_floats(queries * dims, 11);
        const auto score = [&](uint32_t first, uint32_t last, const float* from, size_t n) {
          std::vector<float> out(n * (last - first + 1), 77);
          const Range range = {first, last};
          table.score_quads(
              {.blocks = blocks, .block_rows = kBlockRows, .dims = dims, .ranges = {&range, 1}},
              from, n, out.data(), last - first + 1);
          for (size_t i = 0; i < n; ++i) EXPECT_EQ(out[(i + 1) * (last - first + 1) - 1], 77);
          return out;
        };
        constexpr uint32_t kRows = kBlockRows * kBlocks;
        const std::vector<float> all = score(0, kRows, q.data(), queries);
        for (size_t query = 0; query < queries; ++query) {
          float most = 0;
          for (uint32_t d = 0; d < dims; ++d) most = std::max(most, std::abs(q[query * dims + d]));
          for (uint32_t row = 0; row < kRows; ++row) {
            double sum = 0, size = 0;
            for (uint32_t d = 0; d < dims; ++d) {
              const auto code = static_cast<int8_t>(
                  blocks[row / kBlockRows][(d / 4 * kBlockRows + row % kBlockRows) * 4 + d % 4]);
              sum += double{q[query * dims + d]} * code;
              size += std::abs(code);
            }
            EXPECT_NEAR(all[query * (kRows + 1) + row], sum, most / 64000 * size + 1e-5 * size);
          }
        }
        for (const auto& [first, last] :
             {std::pair{0u, 1u}, {3u, 5u}, {5u, 190u}, {16u, 64u}, {63u, 130u}, {191u, 192u}}) {
          const std::vector<float> some = score(first, last, q.data(), queries);
          for (size_t query = 0; query < queries; ++query) {
            const std::vector<float> alone = score(first, last, &q[query * dims], 1);
            for (uint32_t row = first; row < last; ++row) {
              EXPECT_EQ(some[query * (last - first + 1) + row - first],
                        all[query * (kRows + 1) + row]);
              EXPECT_EQ(alone[row - first], all[query * (kRows + 1) + row]);
            }
          }
        }
        // Several ranges: their scores follow each other.
        std::vector<Range> ranges;
        for (uint32_t row = random() % 3; row < kRows;) {
          const uint32_t end = std::min<uint32_t>(kRows, row + 1 + random() % 40);
          ranges.push_back({row, end});
          row = end + random() % 20;
        }
        std::vector<float> in_ranges(queries * kRows);
        table.score_quads(
            {.blocks = blocks, .block_rows = kBlockRows, .dims = dims, .ranges = ranges}, q.data(),
            queries, in_ranges.data(), kRows);
        for (size_t query = 0; query < queries; ++query) {
          const float* next = &in_ranges[query * kRows];
          for (const Range& range : ranges)
            for (uint32_t row = range.begin; row < range.end; ++row)
              EXPECT_EQ(*next++, all[query * (kRows + 1) + row]);
        }
      }
  });
}

// Rows whose groups of 32 dimensions have scales, in blocks.
struct ScaledQuads {
  ScaledQuads(uint32_t rows_of_block, uint32_t dimensions)
      : block_rows(rows_of_block), dims(dimensions), groups((dims + 31) / 32) {
    const size_t block_bytes = scales() + size_t{groups} * block_rows * sizeof(float);
    std::mt19937 random(dims);
    memory.resize(kBlocks * block_bytes);
    for (std::byte& code : memory) code = static_cast<std::byte>(random() % 255 - 127);
    factors = random_floats(size_t{kBlocks} * groups * block_rows, 3);
    for (uint32_t b = 0; b < kBlocks; ++b) {
      blocks.push_back(&memory[b * block_bytes]);
      std::memcpy(&memory[b * block_bytes + scales()], &factors[size_t{b} * groups * block_rows],
                  size_t{groups} * block_rows * sizeof(float));
    }
  }
  size_t scales() const { return size_t{block_rows} * dims; }
  uint32_t rows() const { return kBlocks * block_rows; }
  float value(uint32_t row, uint32_t d) const {
    const uint32_t b = row / block_rows, i = row % block_rows;
    const auto code = static_cast<int8_t>(blocks[b][(d / 4 * block_rows + i) * 4 + d % 4]);
    return static_cast<float>(code) * factors[(b * groups + d / 32) * block_rows + i];
  }
  std::vector<float> score(const Table& table, std::span<const Range> ranges,
                           std::span<const float> q) const {
    const size_t queries = q.size() / dims;
    std::vector<float> out(queries * (rows() + 1), 77);
    table.score_quads({.blocks = blocks.data(),
                       .block_rows = block_rows,
                       .dims = dims,
                       .scales = scales(),
                       .ranges = ranges},
                      q.data(), queries, out.data(), rows() + 1);
    return out;
  }

  static constexpr uint32_t kBlocks = 10;
  uint32_t block_rows, dims, groups;
  std::vector<std::byte> memory;
  std::vector<float> factors;  // [blocks][groups][block_rows]
  std::vector<const std::byte*> blocks;
};

TEST(ElementWise, ScoreQuadsMultipliesWithTheRowsScales) {
  for_each_set([](const Table& table) {
    if (table.score_quads == nullptr) return;
    for (const uint32_t block_rows : {16, 64})
      for (const uint32_t dims : {4, 32, 48, 128})
        for (const size_t queries : {1, 3, 4, 5}) {
          const ScaledQuads quads(block_rows, dims);
          const uint32_t rows = quads.rows();
          const auto q = random_floats(queries * dims, 11);
          const Range all = {0, rows};
          const std::vector<float> scores = quads.score(table, {&all, 1}, q);
          const std::vector<Range> ranges = {{2, 3}, {5, 21}, {32, 140}, {151, rows}};
          const std::vector<float> some = quads.score(table, ranges, q);
          for (size_t query = 0; query < queries; ++query) {
            const float* const of_query = &scores[query * (rows + 1)];
            for (uint32_t row = 0; row < rows; ++row) {
              double sum = 0, size = 0;
              for (uint32_t d = 0; d < dims; ++d) {
                const double x = quads.value(row, d);
                sum += q[query * dims + d] * x;
                size += std::abs(x);
              }
              EXPECT_NEAR(of_query[row], sum, 1e-4 * size) << dims << " " << row;
            }
            EXPECT_EQ(of_query[rows], 77);
            // The same bits where a range begins elsewhere.
            const float* next = &some[query * (rows + 1)];
            for (const Range& range : ranges)
              for (uint32_t row = range.begin; row < range.end; ++row)
                EXPECT_EQ(*next++, of_query[row]) << dims << " " << row;
            EXPECT_EQ(*next, 77);
          }
        }
  });
}

TEST(ElementWise, FindsWhatIsAboveALimit) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      auto x = random_floats(n, 12);
      if (n > 6) x[0] = x[n - 1] = NAN, x[1] = x[n - 2] = INFINITY, x[2] = -INFINITY, x[3] = x[4];
      for (const float limit : {-INFINITY, -0.5F, 0.0F, n > 6 ? x[4] : 0.3F, INFINITY}) {
        std::vector<uint32_t> expected;
        for (uint32_t i = 0; i < n; ++i)
          if (x[i] > limit) expected.push_back(i);
        EXPECT_EQ(table.count_above(x.data(), n, limit), expected.size());
        std::vector<uint32_t> out(expected.size() + 1, 77);
        ASSERT_EQ(table.indices_above(x.data(), n, limit, out.data()), expected.size());
        EXPECT_EQ(out.back(), 77u);
        out.pop_back();
        EXPECT_EQ(out, expected);
      }
    }
  });
}

TEST(ElementWise, SiluMulGatesOverTheWholeRange) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      auto gate = random_floats(n, 6, 20);
      if (n > 4) gate[0] = -200, gate[1] = 200, gate[2] = -88.5F, gate[3] = 0;
      const auto up = random_floats(n, 7);
      std::vector<float> y(n + 1, 77);
      table.silu_mul(gate.data(), up.data(), n, y.data());
      for (size_t i = 0; i < n; ++i) {
        const double expected = gate[i] / (1 + std::exp(-double{gate[i]})) * up[i];
        EXPECT_NEAR(y[i], expected, 4e-7 * std::abs(expected) + 1e-35) << gate[i];
      }
      EXPECT_EQ(y[n], 77);
    }
  });
}

TEST(ElementWise, ExponentialIsWithinTwoUlp) {
  // For large -gate, gate/(1+e^-gate) is gate * e^gate. Times up = 1/gate that is e^gate, with two
  // more roundings.
  for_each_set([](const Table& table) {
    double worst = 0;
    for (float x = -86; x < -20; x += 0.0137F) {
      const float gate = x, up = 1 / x;
      float y;
      table.silu_mul(&gate, &up, 1, &y);
      const double expected = std::exp(double{x}) * x * up;
      worst = std::max(worst, std::abs(y / expected - 1));
    }
    EXPECT_LT(worst, (2 + 1.5) * 0x1p-24 * 1.1);
  });
}

TEST(ElementWise, ReluAndAddTouchExactlyTheirElements) {
  for_each_set([](const Table& table) {
    for (const size_t n : kSizes) {
      auto x = random_floats(n + 1, 8);
      const auto before = x, y = random_floats(n, 9);
      table.relu(x.data(), n);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(x[i], std::max(before[i], 0.0F));
      EXPECT_EQ(x[n], before[n]);
      x = before;
      table.add(x.data(), y.data(), n);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(x[i], before[i] + y[i]);
      EXPECT_EQ(x[n], before[n]);
    }
  });
}

TEST(ElementWise, RopeTurnsPairsInBothLayouts) {
  for_each_set([](const Table& table) {
    for (const size_t dims : {2, 6, 8, 14, 16, 20, 32, 34, 64, 80, 128})
      for (const bool interleaved : {false, true}) {
        auto head = random_floats(dims + 1, 10);
        const auto before = head;
        std::vector<float> cos_sin(dims);
        for (size_t i = 0; i < dims / 2; ++i) {
          cos_sin[i] = std::cos(0.3F * static_cast<float>(i));
          cos_sin[dims / 2 + i] = std::sin(0.3F * static_cast<float>(i));
        }
        table.rope(head.data(), cos_sin.data(), dims, interleaved);
        for (size_t i = 0; i < dims / 2; ++i) {
          const size_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + dims / 2;
          const double c = cos_sin[i], s = cos_sin[dims / 2 + i];
          EXPECT_NEAR(head[a], before[a] * c - before[b] * s, 5e-7) << dims << " " << i;
          EXPECT_NEAR(head[b], before[b] * c + before[a] * s, 5e-7) << dims << " " << i;
        }
        EXPECT_EQ(head[dims], before[dims]);
      }
  });
}

TEST(ElementWise, StoreRowRoundsLikeTheDefinition) {
  // Every exponent and sign with random mantissas, ties, subnormals of both types, infinities, NaN.
  std::mt19937 random(11);
  std::vector<float> in;
  for (uint32_t high = 0; high < 512; ++high)
    for (const uint32_t low : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U, 0x8000U,
                               0x18000U, 0x7fffffU, static_cast<uint32_t>(random()) & 0x7fffffU}) {
      const uint32_t bits = high << 23 | low;
      float x;
      std::memcpy(&x, &bits, 4);
      in.push_back(x);
    }
  for_each_set([&](const Table& table) {
    for (const DType type :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kStatic8, DType::kStatic16})
      for (const size_t n : {in.size(), size_t{1}, size_t{23}}) {
        std::vector<std::byte> expected(n * 4 + 1), out(n * 4 + 1);
        from_f32(type, in.data(), n, expected.data());
        table.store_row(type, in.data(), n, out.data());
        EXPECT_EQ(0, std::memcmp(expected.data(), out.data(), out.size())) << dtype_info(type).name;
      }
    for (const DType type : {DType::kQ8, DType::kQ4, DType::kQ3, DType::kQ2})
      for (const size_t n : {size_t{32}, size_t{96}}) {
        std::vector<std::byte> expected(n + 8), out(n + 8);
        for (size_t i = 0; i + n <= in.size(); i += n) {
          from_f32(type, &in[i], n, expected.data());
          table.store_row(type, &in[i], n, out.data());
          ASSERT_EQ(0, std::memcmp(expected.data(), out.data(), out.size()))
              << dtype_info(type).name << " from " << i;
        }
      }
    EXPECT_THROW(table.store_row(DType::kQ8_0, in.data(), 32, nullptr), base::Bug);
    EXPECT_THROW(table.store_row(DType::kQ8, in.data(), 33, nullptr), base::Bug);
  });
}

TEST(ElementWise, DotRowsMultipliesEachRowWithTheQuery) {
  for_each_set([](const Table& table) {
    for (const DType type :
         {DType::kF32, DType::kF16, DType::kBF16, DType::kStatic8, DType::kStatic16})
      for (const size_t dims : {1, 3, 8, 16, 24, 31, 32, 64, 72, 128, 200}) {
        constexpr size_t kRows = 5;
        const size_t bytes = dtype_bytes(type, dims), stride = bytes + 6;
        const auto floats = random_floats(kRows * dims, 11, is_static(type) ? 40.0F : 1.0F);
        const auto q = random_floats(dims, 12);
        std::vector<std::byte> rows(kRows * stride);  // nothing behind the last row
        std::vector<float> read(dims), out(kRows + 1, 77);
        rows.resize((kRows - 1) * stride + bytes);
        for (size_t r = 0; r < kRows; ++r)
          from_f32(type, floats.data() + r * dims, dims, rows.data() + r * stride);
        table.dot_rows(type, rows.data(), stride, kRows, q.data(), dims, out.data());
        for (size_t r = 0; r < kRows; ++r) {
          to_f32(type, rows.data() + r * stride, dims, read.data());
          double sum = 0, size = 0;
          for (size_t i = 0; i < dims; ++i) {
            sum += double{read[i]} * q[i];
            size += std::abs(double{read[i]} * q[i]);
          }
          EXPECT_NEAR(out[r], sum, 1e-5 * size) << dtype_info(type).name << " " << dims;
          float alone;  // a row has the same bits whatever rows are beside it
          table.dot_rows(type, rows.data() + r * stride, stride, 1, q.data(), dims, &alone);
          EXPECT_EQ(out[r], alone) << dtype_info(type).name << " " << dims;
        }
        EXPECT_EQ(out[kRows], 77);
      }
  });
}

}  // namespace
}  // namespace kvick::kernels
