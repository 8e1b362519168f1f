// Compares groups of rows, and the policy that reads them, with their definitions.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "kv/select/row_clusters.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr uint32_t kDims = 8;
constexpr ClusterShape kClusters = {.head_dim = kDims, .cluster = 4, .block = 128};

// Random F32 rows of one head.
struct MadeRows {
  MadeRows(uint32_t rows, uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (uint32_t i = 0; i < rows * kDims; ++i) {
      keys.push_back(normal(random));
      values.push_back(normal(random));
    }
  }
  // A segment of the rows from `first` on.
  kernels::Segment segment(uint32_t first) {
    const auto rows = static_cast<uint32_t>(keys.size() / kDims);
    run = {.row = first, .rows = rows - first, .pos = first};
    return {.k = reinterpret_cast<const std::byte*>(keys.data()),
            .v = reinterpret_cast<const std::byte*>(values.data()),
            .k_stride = kDims * sizeof(float),
            .v_stride = kDims * sizeof(float),
            .runs = {&run, 1}};
  }
  std::vector<float> keys, values;
  kernels::Run run{};
};

struct MadeBlock {
  std::vector<std::byte> memory = std::vector<std::byte>(kClusters.bytes());
  ClusterBlock block{kClusters, memory.data()};
};

void group(MadeRows& rows, uint32_t begin, uint32_t had, uint32_t now, MadeBlock& to) {
  group_rows(tried_kernels(), kClusters, rows.segment(begin + first_grouped(kClusters, had, now)),
             begin, had, now, to.block);
}

void expect_mean(const std::byte* mean, const std::vector<float>& rows, uint32_t begin,
                 std::span<const uint16_t> of) {
  std::vector<float> read(kDims);
  kernels::to_f32(kClusters.mean_type(false), mean, kDims, read.data());
  for (uint32_t d = 0; d < kDims; ++d) {
    double sum = 0;
    for (const uint16_t row : of) sum += rows[size_t{begin + row} * kDims + d];
    EXPECT_NEAR(read[d], sum / static_cast<double>(of.size()), 2e-3);
  }
}

TEST(RowClusters, FindsGroupsThatAreThere) {
  for (const base::Isa isa : tried_isas()) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    std::vector<float> keys;
    std::vector<uint16_t> found(96);
    for (uint32_t row = 0; row < found.size(); ++row)
      for (uint32_t d = 0; d < kDims; ++d)
        keys.push_back((row / 12 == d ? 9.0F : 0.0F) + normal(random) / 8);
    group_keys(kernels::table(isa), keys, kDims, 8, found);
    for (uint32_t a = 0; a < found.size(); ++a)
      for (uint32_t b = 0; b < a; ++b) EXPECT_EQ(found[a] == found[b], a / 12 == b / 12);
  }
}

TEST(RowClusters, KeysGoToTheNearestOfTheMeans) {
  MadeRows rows(64, 9);
  std::vector<uint16_t> found(64);
  group_keys(tried_kernels(), rows.keys, kDims, 8, found);
  // Plain k-means with the same number of rounds and the same first means.
  std::vector<double> means;
  for (uint32_t i = 0; i < 8; ++i)
    for (uint32_t d = 0; d < kDims; ++d) means.push_back(rows.keys[(i * 8 + 4) * kDims + d]);
  std::vector<uint16_t> expected(64);
  for (uint32_t round = 0; round < kGroupingRounds; ++round) {
    for (uint32_t row = 0; row < 64; ++row) {
      double least = 1e30;
      for (uint32_t i = 0; i < 8; ++i) {
        double distance = 0;
        for (uint32_t d = 0; d < kDims; ++d)
          distance += std::pow(rows.keys[row * kDims + d] - means[i * kDims + d], 2);
        if (distance < least) least = distance, expected[row] = static_cast<uint16_t>(i);
      }
    }
    for (uint32_t i = 0; i < 8; ++i)
      for (uint32_t d = 0; d < kDims; ++d) {
        double sum = 0, count = 0;
        for (uint32_t row = 0; row < 64; ++row)
          if (expected[row] == i) sum += rows.keys[row * kDims + d], ++count;
        if (count > 0) means[i * kDims + d] = sum / count;
      }
  }
  EXPECT_EQ(found, expected);
}

TEST(RowClusters, HoldEveryRowOnceAndTheMeansOfTheirRows) {
  MadeRows rows(200, 1);
  for (const uint32_t now : {1u, 3u, 31u, 32u, 33u, 95u, 100u, 127u, 128u}) {
    MadeBlock made;
    group(rows, 50, 0, now, made);
    std::vector<uint32_t> seen(now);
    for (uint32_t i = 0; i < kClusters.clusters_of(now); ++i) {
      const auto of = made.block.rows_of(i);
      EXPECT_TRUE(std::is_sorted(of.begin(), of.end()));
      for (const uint16_t row : of) ++seen[row];
      if (of.empty()) continue;
      expect_mean(made.block.key(i), rows.keys, 50, of);
      expect_mean(made.block.value(i), rows.values, 50, of);
    }
    EXPECT_EQ(seen, std::vector<uint32_t>(now, 1)) << now;
  }
}

TEST(RowClusters, KeepMeansOf32DimensionsIn8Bits) {
  const ClusterShape shape = {.head_dim = 64, .cluster = 4, .block = 128, .v_dim = 40};
  EXPECT_EQ(shape.mean_type(false), kernels::DType::kQ8);
  EXPECT_EQ(shape.mean_type(true), kernels::DType::kF16);
  EXPECT_EQ(shape.mean_bytes(false), 2u * 34);
  EXPECT_EQ(shape.mean_bytes(true), 40u * 2);
}

// Each step gets only the rows from first_grouped() on.
TEST(RowClusters, AreTheSameHoweverRowsCame) {
  MadeRows rows(200, 2);
  std::mt19937 random(4);
  for (int turn = 0; turn < 60; ++turn) {
    MadeBlock grown, at_once;
    const uint32_t end = 1 + random() % kClusters.block;
    for (uint32_t had = 0; had < end;) {
      const uint32_t now = std::min<uint32_t>(end, had + 1 + random() % (turn % 2 == 0 ? 5 : 90));
      group(rows, 50, had, now, grown);
      had = now;
    }
    group(rows, 50, 0, end, at_once);
    for (uint32_t i = 0; i < kClusters.clusters_of(end); ++i) {
      const auto a = grown.block.rows_of(i), b = at_once.block.rows_of(i);
      ASSERT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << end << " " << i;
      if (a.empty()) continue;
      EXPECT_EQ(std::memcmp(grown.block.key(i), at_once.block.key(i), kClusters.mean_bytes(false)),
                0);
      EXPECT_EQ(
          std::memcmp(grown.block.value(i), at_once.block.value(i), kClusters.mean_bytes(true)), 0);
    }
  }
}

// A store with one layer and head, and the result of attention over it.
struct Cached {
  explicit Cached(const std::string& policy) {
    kv::Setup setup = test_setup({.layers = 1,
                                  .kv_heads = 1,
                                  .head_dim = kDims,
                                  .max_tokens = 4000,
                                  .k_type = kernels::DType::kF32,
                                  .v_type = kernels::DType::kF32},
                                 UINT64_MAX);
    setup.select.spec = parse_spec(policy).value();
    setup.select.group = 2;
    store = make_store(parse_spec("paged:block=7").value(), setup).value();
    seq = store->open({}).seq;
  }
  void add(const MadeRows& rows, uint32_t first, uint32_t count) {
    auto step = store->begin({{{{seq, count}}}});
    (*step)->write(0, rows.keys.data() + first * kDims, rows.values.data() + first * kDims);
    (*step)->commit({.rows = {all(count)}});
  }
  static std::vector<uint32_t> all(uint32_t count) {
    std::vector<uint32_t> rows(count);
    std::iota(rows.begin(), rows.end(), 0u);
    return rows;
  }
  // Returns attention of two queries that share the head, by the definition of views, in double
  // precision. sinks: one logit per query, or null.
  std::vector<double> attend(std::span<const float> queries, const float* sinks = nullptr) {
    const std::vector<float> fresh(kDims, 0.25F);
    auto step = store->begin({{{{seq, 1}}}});
    (*step)->write(0, fresh.data(), fresh.data());
    base::Arena scratch;
    kernels::View view;
    (*step)->view({.slot = 0,
                   .layer = 0,
                   .head = 0,
                   .q = queries.data(),
                   .q_stride = 2 * kDims,
                   .sinks = sinks},
                  scratch, view);
    std::vector<double> out;
    for (size_t i = 0; i < 2; ++i) {
      const float* const q = queries.data() + i * kDims;
      std::vector<double> sum(kDims);
      double mass = sinks != nullptr ? std::exp(double{sinks[i]}) : 0;
      const auto add = [&](const kernels::Segment& segment) {
        std::vector<float> key(kDims), value(kDims);
        for (const kernels::Run& run : segment.runs)
          for (uint32_t row = run.row; row < run.row + run.rows; ++row) {
            kernels::to_f32(segment.k_type, segment.k + size_t{row} * segment.k_stride, kDims,
                            key.data());
            kernels::to_f32(segment.v_type, segment.v + size_t{row} * segment.v_stride, kDims,
                            value.data());
            double logit = 0;
            for (uint32_t d = 0; d < kDims; ++d) logit += double{q[d]} * key[d];
            logit /= std::sqrt(double{kDims});
            if (segment.row_bias != nullptr) logit += segment.row_bias[row];
            mass += std::exp(logit);
            for (uint32_t d = 0; d < kDims; ++d) sum[d] += std::exp(logit) * value[d];
          }
      };
      for (const kernels::Segment& segment : view.past) add(segment);
      add(view.fresh);
      for (const double x : sum) out.push_back(x / mass);
    }
    shown = positions(view);
    stands_for.clear();
    for (const kernels::Segment& segment : view.past)
      for (uint32_t i = 0; segment.row_bias != nullptr && i < segment.runs[0].rows; ++i)
        if (segment.row_bias[i] > -1) stands_for.push_back(std::exp(segment.row_bias[i]));
    return out;
  }

  std::unique_ptr<Store> store;
  SeqId seq{};
  // Of the last attend(): the rows read, and how many rows each mean stood for.
  Rows shown;
  std::vector<double> stands_for;
};

std::vector<float> two_queries(uint32_t seed) {
  MadeRows made(2, seed);
  return made.keys;
}

// If all rows of a group are equal, attention with their mean in their place gives the same output.
TEST(Clusters, MeansStandForRowsThatAreAlike) {
  MadeRows rows(300, 5);
  for (uint32_t row = 0; row < 300; ++row)
    for (uint32_t d = 0; d < kDims; ++d) {
      const uint32_t kind = (row * 7 + row / 13) % 5;  // a copy of one of the first five rows
      rows.keys[row * kDims + d] = 2 * rows.keys[kind * kDims + d];
      rows.values[row * kDims + d] = rows.values[kind * kDims + d];
    }
  const auto run = [&](const std::string& policy) {
    Cached cached(policy);
    for (uint32_t at = 0; at < 300; at += 25) cached.add(rows, at, 25);
    std::vector<double> out = cached.attend(two_queries(6));
    return std::pair(out, cached.shown.size());
  };
  const std::string options = ",sinks=2,recent=3,cluster=4,block=64";
  const auto [all, every_row] = run("clusters:budget=1.0" + options);
  const auto [some, few_rows] = run("clusters:budget=40" + options);
  const auto [none, as_few] = run("clusters:budget=40,rest=off" + options);
  EXPECT_EQ(every_row, 300u);
  EXPECT_EQ(few_rows, 40u);
  EXPECT_EQ(as_few, 40u);
  double error = 0, without = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    error = std::max(error, std::abs(some[i] - all[i]));
    without = std::max(without, std::abs(none[i] - all[i]));
  }
  // The newest rows are grouped by their order, so their groups mix kinds; but these rows are read.
  EXPECT_LT(error, 0.02);
  EXPECT_GT(without, 5 * error);
}

// Weights are computed from mean keys in 8 bits, in multiples of a scale.
void round_to_8_bits(std::span<float> mean) {
  float most = 0;
  for (const float x : mean) most = std::max(most, std::abs(x));
  const float scale = most / 127;
  for (float& x : mean) x = scale > 0 ? scale * std::nearbyint(x / scale) : 0;
}

// The definition: sort all groups by weight; the means stand for the rows not read. Returns the
// rows that are read.
Rows expect_heaviest_groups(const float* sinks) {
  constexpr uint32_t kRows = 333, kFirst = 3, kRecent = 10, kBlock = 64, kBudget = 60;
  const ClusterShape shape = {.head_dim = kDims, .cluster = 4, .block = kBlock};
  MadeRows rows(kRows, 7);
  Cached cached(fmt::format("clusters:budget={},sinks={},recent={},cluster=4,block={}", kBudget,
                            kFirst, kRecent, kBlock));
  for (uint32_t at = 0; at < kRows; at += 37) cached.add(rows, at, std::min(37u, kRows - at));
  const std::vector<float> queries = two_queries(8);
  cached.attend(queries, sinks);

  struct Group {
    Rows rows;
    std::vector<double> scores;  // per query
    double weight = 0;
  };
  std::vector<Group> groups;
  for (uint32_t begin = 0; begin < kRows; begin += kBlock) {
    std::vector<std::byte> memory(shape.bytes());
    const ClusterBlock block(shape, memory.data());
    const uint32_t now = std::min(kBlock, kRows - begin);
    group_rows(tried_kernels(), shape, rows.segment(begin), begin, 0, now, block);
    for (uint32_t i = 0; i < shape.clusters_of(now); ++i) {
      Group made;
      for (const uint16_t row : block.rows_of(i))
        if (begin + row >= kFirst && begin + row < kRows - kRecent)
          made.rows.push_back(begin + row);
      std::vector<float> mean(kDims);
      kernels::to_f32(shape.mean_type(false), block.key(i), kDims, mean.data());
      round_to_8_bits(mean);
      for (size_t q = 0; q < 2; ++q)
        made.scores.push_back(
            std::inner_product(mean.begin(), mean.end(),
                               queries.begin() + static_cast<ptrdiff_t>(q * kDims), 0.0) /
            std::sqrt(double{kDims}));
      if (!made.rows.empty()) groups.push_back(made);
    }
  }
  for (size_t q = 0; q < 2; ++q) {
    double mass = sinks != nullptr ? std::exp(double{sinks[q]}) : 0;
    for (const Group& one : groups)
      mass += static_cast<double>(one.rows.size()) * std::exp(one.scores[q]);
    for (Group& one : groups) one.weight += std::exp(one.scores[q]) / mass;
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const Group& a, const Group& b) { return a.weight > b.weight; });
  Rows expected;
  for (Row row = 0; row < kFirst; ++row) expected.push_back(row);
  for (Row row = kRows - kRecent; row < kRows; ++row) expected.push_back(row);
  std::vector<double> left;  // unread rows, per group that has any
  for (const Group& one : groups) {
    const size_t take = std::min(one.rows.size(), kBudget - expected.size());
    expected.insert(expected.end(), one.rows.begin(),
                    one.rows.begin() + static_cast<ptrdiff_t>(take));
    if (take < one.rows.size()) left.push_back(static_cast<double>(one.rows.size() - take));
  }
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(cached.shown, expected);
  std::vector<double> stands = cached.stands_for;
  std::sort(left.begin(), left.end());
  std::sort(stands.begin(), stands.end());
  EXPECT_EQ(stands.size(), left.size());
  for (size_t i = 0; i < std::min(stands.size(), left.size()); ++i)
    EXPECT_NEAR(stands[i], left[i], 1e-4);
  return cached.shown;
}

TEST(Clusters, ReadTheGroupsWhoseMeansWeighMost) { expect_heaviest_groups(nullptr); }

// A query whose attention goes to its sink counts for less.
TEST(Clusters, CountTheSinksOfTheHeadsInTheWeights) {
  const Rows without = expect_heaviest_groups(nullptr);
  for (const auto& sinks : std::vector<std::vector<float>>{{9, -9}, {-9, 9}, {40, 30}}) {
    SCOPED_TRACE(sinks[0]);
    EXPECT_NE(expect_heaviest_groups(sinks.data()), without);
  }
}

TEST(Clusters, SayWhatAnOptionHasToBe) {
  kv::Setup setup =
      test_setup({.layers = 1, .kv_heads = 1, .head_dim = 8, .max_tokens = 8}, UINT64_MAX);
  const auto refusal = [&](const char* policy) {
    setup.select.spec = parse_spec(policy).value();
    return make_store({"virtual", {}}, setup).error().message;
  };
  EXPECT_EQ(refusal("clusters:cluster=12"),
            "clusters: cluster=12 is not a power of two, such as 8");
  EXPECT_TRUE(refusal("clusters:cluster=16,block=64")
                  .starts_with("clusters: block='64' is not a whole number from 128 to 8192"));
  EXPECT_TRUE(refusal("clusters:rest=maybe").starts_with("clusters: rest='maybe' is neither"));
  setup.tier.spec = parse_spec("ram:size=1MiB").value();
  setup.select.spec = parse_spec("clusters").value();
  EXPECT_TRUE(make_store({"tiered", {}}, setup).ok());
  setup.tier.spec = parse_spec("ram:size=1MiB,access=copy").value();
  const auto copied = make_store({"tiered", {}}, setup);
  ASSERT_FALSE(copied.ok());
  EXPECT_TRUE(copied.error().message.starts_with("clusters reads rows again"))
      << copied.error().message;
}

}  // namespace
}  // namespace kvick::kv::test
