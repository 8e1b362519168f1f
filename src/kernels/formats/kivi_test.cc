// Tests rows of asymmetric codes: their definitions, the fast ways to write them, and attention
// over them.

#include "kernels/formats/kivi.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<base::Isa> isas() {
  std::vector<base::Isa> all;
  for (const base::Isa isa : base::kIsas)
    if (base::isa_supported(isa)) all.push_back(isa);
  return all;
}

// Pointers to a group's rows, which are apart in memory and in random order.
struct Group {
  Group(size_t dims, std::mt19937& random) : bytes(dtype_bytes(DType::kKivi4K, dims)) {
    std::vector<size_t> order(kGroupRows);
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    memory.assign(kGroupRows * (bytes + 3), std::byte{0xff});
    for (const size_t at : order) rows.push_back(memory.data() + at * (bytes + 3));
  }
  Bytes contents() const {
    Bytes all;
    for (const std::byte* row : rows) all.insert(all.end(), row, row + bytes);
    return all;
  }
  size_t bytes;
  Bytes memory;
  std::vector<std::byte*> rows;
};

// Returns numbers whose channels differ greatly, as those of keys do.
std::vector<float> numbers(size_t rows, size_t dims, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> x(rows * dims), size(dims), middle(dims);
  for (size_t d = 0; d < dims; ++d) {
    size[d] = std::exp(normal(random));
    middle[d] = 3 * normal(random);
  }
  for (size_t i = 0; i < x.size(); ++i) x[i] = middle[i % dims] + size[i % dims] * normal(random);
  return x;
}

// Returns the largest error: half a step, 15 times the float16 rounding of the scale, and that of
// the zero point.
double bound(float least, float most) {
  const double half = 0x1p-11, range = double{most} - least;
  return range / 15 * (0.5 + 15 * half) + std::abs(least) * half * 2 + 1e-7;
}

TEST(KiviScale, PutsCodesFromTheLeastNumberToTheMost) {
  const KiviScale scale = kivi_scale(-2, 5.5F);
  EXPECT_EQ(f16_to_f32(scale.halves[0]), 0.5F);
  EXPECT_EQ(f16_to_f32(scale.halves[1]), -2);
  EXPECT_EQ(scale.zero, -2);
  EXPECT_EQ(scale.inverse, 2);
  const KiviScale one = kivi_scale(-0.0F, 0);  // all the same
  EXPECT_EQ(one.halves[0], 0);
  EXPECT_EQ(one.halves[1], 0);
  EXPECT_EQ(one.inverse, 0);
  EXPECT_LT(f16_to_f32(kivi_scale(1.00049F, 1.0005F).halves[0]), 1e-3F);
}

TEST(KiviScale, IsNanForWhatFloat16CannotHold) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [least, most] : std::initializer_list<std::pair<float, float>>{
           {nan, 1}, {0, nan}, {-inf, 0}, {0, inf}, {-1e6F, 0}, {0, 2e6F}, {1e5F, 1e5F}})
    EXPECT_TRUE(std::isnan(f16_to_f32(kivi_scale(least, most).halves[0]))) << least << " " << most;
}

TEST(KiviValues, AreWithinHalfAStepOfEachGroupOf32) {
  std::mt19937 random(1);
  for (const size_t dims : {32, 64, 96, 256}) {
    const std::vector<float> x = numbers(1, dims, random);
    Bytes row(dtype_bytes(DType::kKivi4V, dims));
    EXPECT_EQ(row.size(), dims / 2 + dims / 8);
    from_f32(DType::kKivi4V, x.data(), dims, row.data());
    std::vector<float> back(dims);
    to_f32(DType::kKivi4V, row.data(), dims, back.data());
    for (size_t g = 0; g < dims; g += 32) {
      const auto [least, most] = std::minmax_element(&x[g], &x[g] + 32);
      for (size_t d = g; d < g + 32; ++d)
        EXPECT_NEAR(back[d], x[d], bound(*least, *most)) << dims << " " << d;
    }
  }
}

TEST(KiviKeys, AreWithinHalfAStepOfEachChannel) {
  std::mt19937 random(2);
  for (const size_t dims : {32, 64, 96, 256}) {
    const size_t stride = dims + 5;
    const std::vector<float> x = numbers(kGroupRows, stride, random);
    Group group(dims, random);
    group_from_f32(DType::kKivi4K, x.data(), stride, dims, group.rows.data());
    std::vector<float> back(kGroupRows * dims);
    group_to_f32(DType::kKivi4K, group.rows.data(), dims, back.data());
    for (size_t d = 0; d < dims; ++d) {
      float least = x[d], most = x[d];
      for (size_t i = 0; i < kGroupRows; ++i) {
        least = std::min(least, x[i * stride + d]);
        most = std::max(most, x[i * stride + d]);
      }
      for (size_t i = 0; i < kGroupRows; ++i)
        EXPECT_NEAR(back[i * dims + d], x[i * stride + d], bound(least, most)) << d << " " << i;
    }
  }
}

TEST(KiviKeys, WriteNothingBesideTheirRows) {
  std::mt19937 random(3);
  const std::vector<float> x = numbers(kGroupRows, 64, random);
  for (const base::Isa isa : isas()) {
    Group group(64, random);
    table(isa).store_group(DType::kKivi4K, x.data(), 64, 64, group.rows.data());
    for (const std::byte* row : group.rows)
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(row[group.bytes + i], std::byte{0xff});
  }
}

TEST(Kivi, IsWrittenWithTheSameBitsByAllInstructionSets) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int turn = 0; turn < 60; ++turn) {
    const size_t dims = 32 * (1 + random() % 8), stride = dims + random() % 9;
    std::vector<float> x = numbers(kGroupRows, stride, random);
    if (turn % 3 == 1) x[random() % x.size()] = turn % 2 == 0 ? NAN : -INFINITY;
    if (turn % 3 == 2)
      for (float& e : x) e = random() % 2 == 0 ? 0.0F : -0.0F;
    Group expected(dims, random);
    group_from_f32(DType::kKivi4K, x.data(), stride, dims, expected.rows.data());
    Bytes row(dtype_bytes(DType::kKivi4V, dims)), out(row.size());
    from_f32(DType::kKivi4V, x.data(), dims, row.data());
    for (const base::Isa isa : isas()) {
      Group group(dims, random);
      table(isa).store_group(DType::kKivi4K, x.data(), stride, dims, group.rows.data());
      EXPECT_TRUE(group.contents() == expected.contents()) << isa_name(isa) << " turn " << turn;
      table(isa).store_row(DType::kKivi4V, x.data(), dims, out.data());
      EXPECT_TRUE(out == row) << isa_name(isa) << " turn " << turn;
    }
  }
}

TEST(Kivi, ANumberThatIsNotFiniteSpoilsItsGroupAlone) {
  std::mt19937 random(4);
  std::vector<float> x = numbers(kGroupRows, 64, random);
  x[5 * 64 + 40] = std::numeric_limits<float>::infinity();
  Group group(64, random);
  group_from_f32(DType::kKivi4K, x.data(), 64, 64, group.rows.data());
  std::vector<float> back(kGroupRows * 64);
  group_to_f32(DType::kKivi4K, group.rows.data(), 64, back.data());
  for (size_t i = 0; i < back.size(); ++i) EXPECT_EQ(std::isnan(back[i]), i % 64 == 40) << i;
}

TEST(Kivi, WhatMakesNoSenseIsABug) {
  float x[64] = {};
  std::byte bytes[64];
  std::vector<std::byte*> rows(kGroupRows, bytes);
  EXPECT_THROW(to_f32(DType::kKivi4K, bytes, 32, x), base::Bug);
  EXPECT_THROW(from_f32(DType::kKivi4K, x, 32, bytes), base::Bug);
  EXPECT_THROW(group_from_f32(DType::kKivi4V, x, 0, 32, rows.data()), base::Bug);
  EXPECT_THROW(group_to_f32(DType::kQ4, rows.data(), 32, x), base::Bug);
  for (const base::Isa isa : isas()) {
    const Table& t = table(isa);
    EXPECT_THROW(t.store_row(DType::kKivi4K, x, 32, bytes), base::Bug);
    EXPECT_THROW(t.store_row(DType::kKivi4V, x, 33, bytes), base::Bug);
    EXPECT_THROW(t.store_group(DType::kKivi4K, x, 0, 33, rows.data()), base::Bug);
    EXPECT_THROW(t.store_group(DType::kF16, x, 0, 32, rows.data()), base::Bug);
  }
}

// -- attention --

struct Sizes {
  uint32_t old = 0, recent = 0, fresh = 1, group = 1, dims = 64;
};

// One head: old rows as codes, in runs in random order, and recent and fresh rows as float32.
struct Problem {
  Problem(const Sizes& sizes, uint32_t longest_run, std::mt19937& random) : s(sizes) {
    const uint32_t rows = s.old + s.recent + s.fresh;
    k = numbers(rows, s.dims, random);
    v = numbers(rows, s.dims, random);
    std::normal_distribution<float> normal;
    q.resize(s.fresh * s.group * s.dims);
    for (float& e : q) e = normal(random) / 8;
    store_old(longest_run, random);
    new_run = {{0, s.recent, s.old}, {s.recent, s.fresh, s.old + s.recent}};
    kernels::Segment plain;
    plain.k = reinterpret_cast<const std::byte*>(&k[s.old * s.dims]);
    plain.v = reinterpret_cast<const std::byte*>(&v[s.old * s.dims]);
    plain.k_stride = plain.v_stride = s.dims * 4;
    plain.runs = {&new_run[0], 1};
    if (s.recent > 0) view.past.push_back(plain);
    plain.runs = {&new_run[1], 1};
    view.fresh = plain;
  }
  Problem(const Problem&) = delete;
  Problem& operator=(const Problem&) = delete;

  // Stores the old rows, and rounds k and v to what is stored.
  void store_old(uint32_t longest_run, std::mt19937& random) {
    const uint32_t bytes = static_cast<uint32_t>(dtype_bytes(DType::kKivi4K, s.dims));
    for (uint32_t row = 0; row < s.old; row += runs.back().rows)
      runs.push_back({0, std::min<uint32_t>(s.old - row, 1 + random() % longest_run), row});
    std::vector<size_t> order(runs.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    uint32_t used = 1;
    for (const size_t i : order) used = (runs[i].row = used) + runs[i].rows + 1;
    // The bytes around the runs are NaN as float16.
    old_k.assign(size_t{used} * bytes, std::byte{0xff});
    old_v = old_k;
    std::vector<std::byte*> at_k, at_v;
    for (const Run& run : runs)
      for (uint32_t i = run.row; i < run.row + run.rows; ++i) {
        at_k.push_back(old_k.data() + size_t{i} * bytes);
        at_v.push_back(old_v.data() + size_t{i} * bytes);
      }
    for (uint32_t row = 0; row < s.old; ++row) {
      float* value = &v[row * s.dims];
      from_f32(DType::kKivi4V, value, s.dims, at_v[row]);
      to_f32(DType::kKivi4V, at_v[row], s.dims, value);
      if (row % kGroupRows != 0) continue;
      float* keys = &k[row * s.dims];
      group_from_f32(DType::kKivi4K, keys, s.dims, s.dims, &at_k[row]);
      group_to_f32(DType::kKivi4K, &at_k[row], s.dims, keys);
    }
    kernels::Segment segment;
    segment.k = old_k.data(), segment.v = old_v.data();
    segment.k_stride = segment.v_stride = bytes;
    segment.k_type = DType::kKivi4K, segment.v_type = DType::kKivi4V;
    segment.runs = runs;
    if (s.old > 0) view.past.push_back(segment);
  }

  Queries queries(uint32_t first, uint32_t tokens) const {
    Queries made;
    made.q_stride = s.group * s.dims;
    made.q = q.data() + size_t{first} * made.q_stride;
    made.first = first, made.tokens = tokens;
    made.group = s.group, made.k_dim = made.v_dim = s.dims;
    made.scale = 1 / std::sqrt(static_cast<float>(s.dims));
    return made;
  }

  Sizes s;
  std::vector<float> k, v, q;
  Bytes old_k, old_v;
  std::vector<Run> runs, new_run;
  View view;
};

std::vector<float> attend(const Table& table, const View& view, const Queries& queries) {
  const uint32_t n = queries.tokens * queries.group, size = n * queries.v_dim;
  std::vector<float> max(2 * n), sum(2 * n), acc(2 * size), out(size);
  const Partial state = {max.data(), sum.data(), acc.data()};
  const Partial next = {max.data() + n, sum.data() + n, acc.data() + size};
  for (uint32_t chunk = 0; chunk < chunk_count(view, queries); ++chunk) {
    table.attend_chunk(view, queries, chunk, chunk == 0 ? state : next, nullptr);
    if (chunk > 0) table.merge(state, next, n, queries.v_dim);
  }
  table.finish(state, view, queries, out.data(), queries.group * queries.v_dim);
  return out;
}

// The definition, in double.
std::vector<double> naive(const Problem& p, uint32_t token, uint32_t head) {
  const uint32_t rows = p.s.old + p.s.recent + token + 1, dims = p.s.dims;
  const float* q = &p.q[(token * p.s.group + head) * dims];
  std::vector<double> weights(rows), out(dims);
  for (uint32_t row = 0; row < rows; ++row)
    weights[row] = std::inner_product(q, q + dims, &p.k[row * dims], 0.0) / std::sqrt(dims);
  const double most = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& w : weights) sum += w = std::exp(w - most);
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t d = 0; d < dims; ++d) out[d] += weights[row] / sum * p.v[row * dims + d];
  return out;
}

TEST(KiviAttention, EqualsSoftmaxOverTheRowsThatTheCodesStandFor) {
  std::mt19937 random(5);
  const uint32_t olds[] = {32, 256, 224, 320, 64}, recents[] = {0, 1, 40, 130};
  int turn = 0;
  for (const uint32_t dims : {32, 64, 96, 128, 256})
    for (const uint32_t group : {1, 3, 8}) {
      const Sizes sizes = {olds[turn % 5], recents[turn % 4], 1U + turn % 5, group, dims};
      const Problem p(sizes, 1 + 20 * (turn % 3U), random);
      ++turn;
      std::vector<double> largest(dims);  // value of each channel, by magnitude
      for (size_t i = 0; i < p.v.size(); ++i)
        largest[i % dims] = std::max<double>(largest[i % dims], std::abs(p.v[i]));
      for (const base::Isa isa : isas()) {
        const auto out = attend(table(isa), p.view, p.queries(0, sizes.fresh));
        for (uint32_t t = 0; t < sizes.fresh; ++t)
          for (uint32_t g = 0; g < group; ++g) {
            const auto expected = naive(p, t, g);
            for (uint32_t d = 0; d < dims; ++d)
              ASSERT_NEAR(out[(t * group + g) * dims + d], expected[d], 1e-5 * largest[d])
                  << isa_name(isa) << " dims " << dims << " old " << sizes.old;
          }
      }
    }
}

TEST(KiviAttention, BitsDoNotDependOnRunsAndTiles) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  for (int turn = 0; turn < 12; ++turn) {
    std::mt19937 random(seed + turn);
    const Sizes sizes = {
        32 * static_cast<uint32_t>(random() % 20), static_cast<uint32_t>(random() % 160),
        1 + static_cast<uint32_t>(random() % 60), 1 + static_cast<uint32_t>(random() % 8),
        32 * (1 + static_cast<uint32_t>(random() % 4))};
    std::mt19937 one(seed), other(seed);  // the same numbers
    const Problem whole(sizes, 1U << 20, one), pieces(sizes, 1 + turn * 5U, other);
    for (const base::Isa isa : isas()) {
      const auto expected = attend(table(isa), whole.view, whole.queries(0, sizes.fresh));
      for (uint32_t t = 0; t < sizes.fresh;) {
        const uint32_t tokens = std::min<uint32_t>(sizes.fresh - t, 1 + random() % 17);
        const auto tile = attend(table(isa), pieces.view, pieces.queries(t, tokens));
        const float* from = &expected[size_t{t} * sizes.group * sizes.dims];
        ASSERT_EQ(0, std::memcmp(from, tile.data(), tile.size() * sizeof(float)))
            << isa_name(isa) << " turn " << turn << " token " << t;
        t += tokens;
      }
    }
  }
}

TEST(KiviAttention, ADraftTreeSeesTheOldRowsAndItsPath) {
  std::mt19937 random(6);
  const Problem p({96, 30, 3, 2, 64}, 40, random);
  const std::vector<std::vector<uint32_t>> paths = {{0}, {0, 1}, {0, 1, 2}};
  const std::vector<std::span<const uint32_t>> visible(paths.begin(), paths.end());
  for (const base::Isa isa : isas()) {
    Queries queries = p.queries(0, 3);
    const auto chain = attend(table(isa), p.view, queries);
    queries.visible = visible.data();
    EXPECT_TRUE(attend(table(isa), p.view, queries) == chain) << isa_name(isa);
  }
}

TEST(KiviAttention, RowsThatAreNoWholeGroupsAreABug) {
  std::mt19937 random(7);
  const Problem p({64, 20, 1, 1, 64}, 64, random);
  std::vector<float> space(256);
  const Partial out = {space.data(), space.data() + 1, space.data() + 2};
  const auto refuses = [&](auto change) {
    View view = p.view;
    change(view);
    for (const base::Isa isa : isas())
      EXPECT_THROW(table(isa).attend_chunk(view, p.queries(0, 1), 0, out, nullptr), base::Bug);
  };
  const kernels::Run part = {1, 63, 0};
  refuses([&](View& view) { view.past[0].runs = {&part, 1}; });
  refuses([](View& view) { std::swap(view.past[0], view.past[1]); });  // 20 rows before the groups
  refuses([](View& view) { view.fresh.k_type = DType::kKivi4K; });
  refuses([](View& view) { view.past[0].k_type = DType::kKivi4V; });
  refuses([](View& view) { view.past[0].v_type = DType::kKivi4K; });
}

}  // namespace
}  // namespace kvick::kernels
