// Larger than a test should be because all of it needs the layouts at its beginning.

#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/attention/attention_rows.h"
#include "kernels/attention/test_attention.h"
#include "kernels/table/table.h"

namespace kvick::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Returns the scale of static rows: codes up to 127 cover normal values up to about 4.
float scale_of(DType type) { return is_static(type) ? 0.03F : 1; }
void store_elements(DType type, const float* in, uint32_t n, std::byte* out) {
  std::vector<float> codes(in, in + n);
  for (float& x : codes) x /= scale_of(type);
  from_f32(type, codes.data(), n, out);
}

struct Shape {
  uint32_t past = 0, fresh = 1;  // rows
  uint32_t group = 1, head_dim = 64;
  DType dtype = DType::kF32;
  bool biased = false;
  std::vector<std::vector<uint32_t>> visible = {};  // empty: causal
  std::optional<DType> values = {};                 // type of values, if not that of keys
  std::optional<uint32_t> sloped_from = {};  // with slopes: position of the first fresh token

  DType type(bool is_v) const { return is_v ? values.value_or(dtype) : dtype; }
};

// Rows and queries of one head, independent of their layout in memory.
struct Problem {
  Shape shape;
  std::vector<float> k, v;  // [past + fresh][head_dim], representable in their types
  // k and v before they were made representable. These are stored, because some types would round
  // representable values again.
  std::vector<float> k_given, v_given;
  std::vector<float> bias;  // [past + fresh]
  std::vector<float> q;     // [fresh][group][head_dim]
  std::vector<std::span<const uint32_t>> lists;
  std::vector<float> slopes;  // [group], or none
  float scale = 0;

  Problem(const Shape& a_shape, std::mt19937& random) : shape(a_shape) {
    const size_t rows = shape.past + shape.fresh, dims = shape.head_dim;
    std::normal_distribution<float> normal;
    for (auto* x : {&k, &v}) {
      x->resize(rows * dims);
      for (float& e : *x) e = normal(random);
      const DType type = shape.type(x == &v);
      if (type == DType::kQ3 || type == DType::kQ2) (x == &v ? v_given : k_given) = *x;
      make_representable(*x, type);
    }
    bias.resize(rows);
    for (float& e : bias) e = shape.biased ? normal(random) : 0;
    q.resize(shape.fresh * shape.group * dims);
    for (float& e : q) e = normal(random) * 2;
    scale = 1 / std::sqrt(static_cast<float>(dims));
    for (const auto& list : shape.visible) lists.emplace_back(list);
    for (uint32_t g = 0; shape.sloped_from && g < shape.group; ++g)
      slopes.push_back(0.5F / static_cast<float>(g + 1));
  }
  double lost(uint32_t t, uint32_t g, uint32_t row) const {
    if (slopes.empty()) return 0;
    const int64_t behind = int64_t{*shape.sloped_from} + t - row;
    return slopes[g] * static_cast<double>(std::abs(behind));
  }
  const std::vector<float>& stored(bool is_v) const {
    const std::vector<float>& given = is_v ? v_given : k_given;
    return !given.empty() ? given : is_v ? v : k;
  }
  void make_representable(std::vector<float>& x, DType type) const {
    std::vector<std::byte> row(dtype_bytes(type, shape.head_dim));
    for (size_t i = 0; i < x.size(); i += shape.head_dim) {
      store_elements(type, &x[i], shape.head_dim, row.data());
      to_f32(type, row.data(), shape.head_dim, &x[i]);
    }
    for (float& e : x) e *= scale_of(type);
  }
  // Rows that token t sees, in order.
  std::vector<uint32_t> rows_of_token(uint32_t t) const {
    std::vector<uint32_t> rows(shape.past);
    for (uint32_t i = 0; i < shape.past; ++i) rows[i] = i;
    if (shape.visible.empty())
      for (uint32_t i = 0; i <= t; ++i) rows.push_back(shape.past + i);
    else
      for (const uint32_t i : shape.visible[t]) rows.push_back(shape.past + i);
    return rows;
  }
  Queries queries(uint32_t first, uint32_t tokens) const {
    Queries made;
    made.q_stride = shape.group * shape.head_dim;
    made.q = q.data() + static_cast<size_t>(first) * made.q_stride;
    made.first = first;
    made.tokens = tokens;
    made.group = shape.group;
    made.k_dim = made.v_dim = shape.head_dim;
    made.scale = scale;
    made.visible = lists.empty() ? nullptr : lists.data();
    made.slopes = slopes.empty() ? nullptr : slopes.data();
    made.position = shape.sloped_from.value_or(0);
    return made;
  }
};

// The definition: softmax(scale * K q + bias - slope * distance) V over the rows that (t, g) sees,
// in double.
std::vector<double> naive(const Problem& problem, uint32_t t, uint32_t g) {
  const uint32_t dims = problem.shape.head_dim;
  const float* q = &problem.q[(t * problem.shape.group + g) * dims];
  const std::vector<uint32_t> rows = problem.rows_of_token(t);
  std::vector<double> logits, out(dims, 0);
  for (const uint32_t row : rows) {
    double dot = 0;
    for (uint32_t d = 0; d < dims; ++d) dot += double{q[d]} * problem.k[row * dims + d];
    logits.push_back(dot * problem.scale + problem.bias[row] - problem.lost(t, g, row));
  }
  double sum = 0, max = rows.empty() ? 0 : *std::max_element(logits.begin(), logits.end());
  for (double& x : logits) sum += x = std::exp(x - max);
  for (size_t i = 0; i < rows.size(); ++i)
    for (uint32_t d = 0; d < dims; ++d) out[d] += logits[i] / sum * problem.v[rows[i] * dims + d];
  return out;
}

// One Segment and the memory that it points to. Runs of rows are in random order, between rows of
// NaN.
struct Stored {
  std::vector<std::byte> k, v;
  std::vector<Run> runs;
  std::vector<float> bias;
  Segment segment;
};

std::unique_ptr<Stored> store(const Problem& problem, uint32_t begin, uint32_t end,
                              uint32_t longest_run, std::mt19937& random) {
  auto made = std::make_unique<Stored>();
  const uint32_t dims = problem.shape.head_dim;
  const auto bytes = [&](bool is_v) {
    return static_cast<uint32_t>(dtype_bytes(problem.shape.type(is_v), dims) + 8 * (random() % 3));
  };
  made->segment.k_stride = bytes(false);
  made->segment.v_stride = bytes(true);
  made->segment.k_type = problem.shape.type(false);
  made->segment.v_type = problem.shape.type(true);
  made->segment.k_scale = scale_of(made->segment.k_type);
  made->segment.v_scale = scale_of(made->segment.v_type);
  for (uint32_t row = begin; row < end;) {
    const auto rows = std::min<uint32_t>(end - row, 1 + random() % longest_run);
    made->runs.push_back({0, rows, row});
    row += rows;
  }
  std::vector<uint32_t> order(made->runs.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random);
  uint32_t used = 0;
  for (const uint32_t i : order) {
    made->runs[i].row = used + random() % 2;  // sometimes leaves a gap
    used = made->runs[i].row + made->runs[i].rows;
  }
  // 0xff in all bytes is NaN in all types but the static ones, so it shows if a row is read that no
  // query sees.
  made->k.assign(static_cast<size_t>(used + 1) * made->segment.k_stride, std::byte{0xff});
  made->v.assign(static_cast<size_t>(used + 1) * made->segment.v_stride, std::byte{0xff});
  made->bias.assign(used + 1, std::numeric_limits<float>::quiet_NaN());
  for (const Run& run : made->runs)
    for (uint32_t i = 0; i < run.rows; ++i) {
      const size_t from = static_cast<size_t>(run.pos + i) * dims, to = run.row + i;
      store_elements(made->segment.k_type, &problem.stored(false)[from], dims,
                     made->k.data() + to * made->segment.k_stride);
      store_elements(made->segment.v_type, &problem.stored(true)[from], dims,
                     made->v.data() + to * made->segment.v_stride);
      made->bias[to] = problem.bias[run.pos + i];
    }
  made->segment.k = made->k.data();
  made->segment.v = made->v.data();
  made->segment.runs = made->runs;
  if (problem.shape.biased) made->segment.row_bias = made->bias.data();
  return made;
}

// A whole View and its memory.
struct Layout {
  std::vector<std::unique_ptr<Stored>> parts;
  View view;
};

// Stores past rows in `segments` segments, and fresh rows in one more.
Layout lay_out(const Problem& problem, uint32_t segments, uint32_t longest_run,
               std::mt19937& random) {
  Layout made;
  uint32_t row = 0;
  for (uint32_t i = 0; i < segments; ++i) {
    const uint32_t left = problem.shape.past - row;
    const uint32_t rows = i + 1 == segments ? left : static_cast<uint32_t>(random() % (left + 1));
    made.parts.push_back(store(problem, row, row + rows, longest_run, random));
    made.view.past.push_back(made.parts.back()->segment);
    row += rows;
  }
  const uint32_t end = problem.shape.past + problem.shape.fresh;
  made.parts.push_back(store(problem, problem.shape.past, end, longest_run, random));
  made.view.fresh = made.parts.back()->segment;
  return made;
}

// Returns the output of all chunks, merged and finished: [tokens][group][head_dim].
std::vector<float> attend(const Table& table, const View& view, const Queries& queries) {
  const size_t count = static_cast<size_t>(queries.tokens) * queries.group;
  const size_t size = count * queries.v_dim;
  std::vector<float> max[2], sum[2], acc[2], out(size);
  Partial partial[2];
  for (int i = 0; i < 2; ++i) {
    max[i].resize(count), sum[i].resize(count), acc[i].resize(size);
    partial[i] = {max[i].data(), sum[i].data(), acc[i].data()};
  }
  const uint32_t chunks = chunk_count(view, queries);
  table.attend_chunk(view, queries, 0, partial[0], nullptr);
  for (uint32_t chunk = 1; chunk < chunks; ++chunk) {
    table.attend_chunk(view, queries, chunk, partial[1], nullptr);
    table.merge(partial[0], partial[1], static_cast<uint32_t>(count), queries.v_dim);
  }
  table.finish(partial[0], view, queries, out.data(), queries.group * queries.v_dim);
  return out;
}

// Returns the largest error of a logit from rounding the query to 16 bits, as products with
// quantised keys do: half a step, max|q| / 32512 of its group of 32, for every element of the
// largest key.
double query_rounding(const Problem& problem) {
  if (dtype_info(problem.shape.dtype).block == 1) return 0;
  const uint32_t dims = problem.shape.head_dim;
  double most = 0;
  for (size_t q = 0; q < problem.q.size(); q += dims)
    for (size_t k = 0; k < problem.k.size(); k += dims) {
      double sum = 0;
      for (uint32_t g = 0; g < dims; g += 32) {
        double largest = 0, keys = 0;
        for (uint32_t d = g; d < g + 32; ++d) {
          largest = std::max<double>(largest, std::abs(problem.q[q + d]));
          keys += std::abs(problem.k[k + d]);
        }
        sum += keys * largest / 32512 / 2;
      }
      most = std::max(most, sum * problem.scale);
    }
  return most;
}

// Returns the largest product of the norms of a query and a key, as a logit.
double most_product(const Problem& problem) {
  const auto most_size = [&](const std::vector<float>& x) {
    double most = 0;
    for (size_t i = 0; i < x.size(); i += problem.shape.head_dim)
      most = std::max<double>(
          most, std::sqrt(std::inner_product(&x[i], &x[i] + problem.shape.head_dim, &x[i], 0.0)));
    return most;
  };
  return most_size(problem.q) * most_size(problem.k) * problem.scale;
}

void expect_close(const Problem& problem, const std::vector<float>& out, uint32_t first,
                  uint32_t tokens, const Set& set) {
  // Values are of order 1 and the weights sum to 1. There are a few hundred rounding errors of
  // 6e-8, also in logits, which are of order 10. Errors up to e in logits change a weight by at
  // most a factor of 1 + 2e.
  double largest = 0;
  for (const float v : problem.v) largest = std::max<double>(largest, std::abs(v));
  const double kBound =
      1e-5 +
      2 * (query_rounding(problem) + set.rounding * most_product(problem) + set.weights) * largest;
  const uint32_t dims = problem.shape.head_dim, group = problem.shape.group;
  double worst = 0;
  for (uint32_t t = 0; t < tokens; ++t)
    for (uint32_t g = 0; g < group; ++g) {
      const std::vector<double> expected = naive(problem, first + t, g);
      for (uint32_t d = 0; d < dims; ++d) {
        const double error = std::abs(out[(t * group + g) * dims + d] - expected[d]);
        worst = std::isnan(error) ? kInf : std::max(worst, error);
      }
    }
  EXPECT_LE(worst, kBound) << set.name << " past " << problem.shape.past << " fresh "
                           << problem.shape.fresh << " group " << group << " head_dim " << dims
                           << " " << dtype_info(problem.shape.dtype).name;
}

// Types of keys and values: every type, and some mixed pairs.
constexpr std::pair<DType, DType> kTypes[] = {
    {DType::kF32, DType::kF32},         {DType::kF16, DType::kF16},
    {DType::kBF16, DType::kBF16},       {DType::kQ8, DType::kQ8},
    {DType::kQ4, DType::kQ4},           {DType::kQ8, DType::kQ4},
    {DType::kQ4, DType::kF16},          {DType::kF32, DType::kQ8},
    {DType::kQ3, DType::kQ3},           {DType::kQ2, DType::kQ2},
    {DType::kQ4, DType::kQ3},           {DType::kQ2, DType::kF16},
    {DType::kStatic8, DType::kStatic8}, {DType::kStatic16, DType::kStatic16}};

bool fits(DType keys, DType values, uint32_t dims) {
  return dims % dtype_info(keys).block == 0 && dims % dtype_info(values).block == 0;
}

TEST(Attention, EqualsSoftmaxOverTheVisibleRowsForAllTypesAndShapes) {
  std::mt19937 random(1);
  const uint32_t pasts[] = {0, 1, 255, 256, 257, 600}, groups[] = {1, 3, 4, 7, 8};
  int turn = 0;
  for (const auto& [keys, values] : kTypes)
    for (const uint32_t dims : {8, 32, 64, 80, 96, 128, 256})
      for (int i = 0; i < 3; ++i, ++turn) {
        if (!fits(keys, values, dims)) continue;
        Shape shape{pasts[turn % 6], 1 + turn % 4U, groups[turn % 5], dims, keys, turn % 2 == 0, {},
                    values};
        const Problem problem(shape, random);
        const Layout layout = lay_out(problem, 1 + turn % 3U, 1 + 40 * (turn % 4U), random);
        for (const Set& set : sets())
          expect_close(problem, attend(set.table, layout.view, problem.queries(0, shape.fresh)), 0,
                       shape.fresh, set);
      }
}

TEST(Attention, LowersLogitsByTheDistanceToBothSides) {
  std::mt19937 random(41);
  for (const uint32_t past : {7U, 256U, 700U})
    for (const uint32_t position : {0U, past / 2, past})
      for (const auto& [keys, dims] : {std::pair{DType::kF32, 24U}, std::pair{DType::kQ8, 64U}}) {
        Shape shape{past, 5, past % 2 + 3, dims, keys, past == 256};
        shape.sloped_from = position;
        const Problem problem(shape, random);
        const Layout layout = lay_out(problem, 2, 100, random);
        for (const Set& set : sets())
          expect_close(problem, attend(set.table, layout.view, problem.queries(0, 5)), 0, 5, set);
      }
}

TEST(Attention, GivesTheSameBitsWithAndWithoutVnni) {
  if (!base::isa_supported(base::Isa::kAvx512Vnni)) GTEST_SKIP() << "no VNNI";
  std::mt19937 random(31);
  for (const DType type : {DType::kQ8, DType::kQ4})
    for (const uint32_t dims : {32, 64, 96, 128, 256})
      for (const uint32_t group : {1, 3, 8}) {
        const Problem problem({300, 5, group, dims, type}, random);
        const Layout layout = lay_out(problem, 2, 100, random);
        const auto one = attend(table(base::Isa::kAvx512), layout.view, problem.queries(0, 5));
        const auto other =
            attend(table(base::Isa::kAvx512Vnni), layout.view, problem.queries(0, 5));
        EXPECT_EQ(one, other) << dtype_info(type).name << " " << dims << " " << group;
      }
}

TEST(Attention, ManyTokensSeeRowsUpToTheirOwn) {
  std::mt19937 random(2);
  for (const uint32_t group : {1, 3, 8}) {
    const DType type = group == 3 ? DType::kQ8 : DType::kF16;
    const Problem problem({230, 40, group, 64, type}, random);
    const Layout layout = lay_out(problem, 2, 300, random);
    for (const Set& set : sets())
      expect_close(problem, attend(set.table, layout.view, problem.queries(0, 40)), 0, 40, set);
  }
}

TEST(Attention, DraftTreesSeeTheRowsOfTheirLists) {
  std::mt19937 random(3);
  for (const uint32_t past : {0, 20, 250, 256, 300}) {
    Shape shape{past, 12, 3, 64, past == 20 ? DType::kQ4 : DType::kF16, true};
    for (uint32_t t = 0; t < shape.fresh; ++t) {
      std::vector<uint32_t> list;
      for (uint32_t i = 0; i < t; ++i)
        if (random() % 2 == 0) list.push_back(i);
      list.push_back(t);
      shape.visible.push_back(list);
    }
    const Problem problem(shape, random);
    const Layout layout = lay_out(problem, 2, 3, random);
    for (const Set& set : sets()) {
      expect_close(problem, attend(set.table, layout.view, problem.queries(0, 12)), 0, 12, set);
      expect_close(problem, attend(set.table, layout.view, problem.queries(5, 4)), 5, 4, set);
    }
  }
}

TEST(Attention, BitsDoNotDependOnSegmentsRunsAndTiles) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int turn = 0; turn < 24; ++turn) {
    const auto [keys, values] = kTypes[turn % std::size(kTypes)];
    const uint32_t dims[] = {8, 64, 72, 96, 128}, wanted = dims[random() % 5];
    const Shape shape{static_cast<uint32_t>(random() % 530),
                      1 + static_cast<uint32_t>(random() % 40),
                      1 + static_cast<uint32_t>(random() % 8),
                      fits(keys, values, wanted) ? wanted : 64,
                      keys,
                      random() % 2 == 0,
                      {},
                      values};
    const Problem problem(shape, random);
    const Layout plain = lay_out(problem, 1, 10000, random);
    for (const Set& set : sets()) {
      const auto expected = attend(set.table, plain.view, problem.queries(0, shape.fresh));
      const Layout other = lay_out(problem, 1 + random() % 6, 1 + random() % 50, random);
      for (uint32_t t = 0; t < shape.fresh;) {
        const auto tokens = std::min<uint32_t>(shape.fresh - t, 1 + random() % 17);
        const auto tile = attend(set.table, other.view, problem.queries(t, tokens));
        const size_t from = static_cast<size_t>(t) * shape.group * shape.head_dim;
        ASSERT_EQ(0, std::memcmp(&expected[from], tile.data(), tile.size() * sizeof(float)))
            << set.name << " turn " << turn << " tokens " << t << "+" << tokens;
        t += tokens;
      }
    }
  }
}

TEST(Attention, BitsDoNotDependOnWhatIsPastAndWhatIsFresh) {
  std::mt19937 random(5);
  for (const uint32_t rows : {5, 256, 300, 520, 530}) {
    const DType type = rows == 530 ? DType::kQ8 : DType::kF16;
    Problem all({rows - 1, 1, 3, 64, type}, random);
    const Layout decode = lay_out(all, 1, 10000, random);
    Problem prefill({0, rows, 3, 64, type}, random);
    prefill.k = all.k, prefill.v = all.v;
    std::copy(all.q.begin(), all.q.end(), prefill.q.end() - static_cast<long>(all.q.size()));
    const Layout fresh = lay_out(prefill, 1, 100, random);
    // The same rows once more, as a list.
    Problem listed = prefill;
    std::vector<uint32_t> list(rows);
    for (uint32_t i = 0; i < rows; ++i) list[i] = i;
    listed.lists.assign(rows, list);
    for (const Set& set : sets()) {
      const auto expected = attend(set.table, decode.view, all.queries(0, 1));
      EXPECT_EQ(expected, attend(set.table, fresh.view, prefill.queries(rows - 1, 1))) << set.name;
      if (set.rounding == 0) {  // the prompt kernel leaves lists to another, which rounds otherwise
        EXPECT_EQ(expected, attend(set.table, fresh.view, listed.queries(rows - 1, 1))) << set.name;
      }
      const auto tile = attend(set.table, fresh.view, prefill.queries(rows - 5, 5));
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), tile.end() - 3 * 64)) << set.name;
    }
  }
}

TEST(Attention, BitsOfOneHeadDoNotDependOnItsGroup) {
  std::mt19937 random(6);
  const Problem problem({400, 3, 8, 128, DType::kBF16}, random);
  const Layout layout = lay_out(problem, 2, 16, random);
  for (const Set& set : sets()) {
    const auto whole = attend(set.table, layout.view, problem.queries(0, 3));
    for (uint32_t g = 0; g < 8; ++g) {
      Queries one = problem.queries(0, 3);
      one.q += g * 128;
      one.group = 1;
      const auto alone = attend(set.table, layout.view, one);
      for (uint32_t t = 0; t < 3; ++t)
        EXPECT_EQ(0, std::memcmp(&alone[t * 128], &whole[(t * 8 + g) * 128], 512)) << set.name;
    }
  }
}

TEST(Attention, SegmentsOfDifferentTypesMix) {
  std::mt19937 random(7);
  Problem problem({300, 2, 3, 64, DType::kBF16}, random);
  // Makes the values exact in bfloat16, float16 and float32.
  for (auto* x : {&problem.k, &problem.v})
    for (float& e : *x) e = std::round(e * 64) / 64;
  for (auto* x : {&problem.k, &problem.v}) problem.make_representable(*x, DType::kBF16);
  const Layout plain = lay_out(problem, 1, 10000, random);
  Layout mixed;
  const uint32_t bounds[] = {0, 100, 133, 260, 300};
  const DType types[] = {DType::kF16, DType::kF32, DType::kBF16, DType::kF16};
  for (int i = 0; i < 4; ++i) {
    problem.shape.dtype = types[i];
    mixed.parts.push_back(store(problem, bounds[i], bounds[i + 1], 7, random));
    mixed.view.past.push_back(mixed.parts.back()->segment);
  }
  mixed.view.fresh = plain.view.fresh;
  for (const Set& set : sets()) {
    if (set.rounding > 0) continue;  // the prompt kernel takes rows of one type
    EXPECT_EQ(attend(set.table, plain.view, problem.queries(0, 2)),
              attend(set.table, mixed.view, problem.queries(0, 2)))
        << set.name;
  }
}

TEST(Attention, ASegmentMayBringItsOwnQueries) {
  std::mt19937 random(8);
  Problem problem({290, 3, 4, 64, DType::kF32}, random);
  Layout layout;
  layout.parts.push_back(store(problem, 0, 30, 4, random));
  layout.parts.push_back(store(problem, 30, 290, 90, random));
  layout.parts.push_back(store(problem, 290, 293, 3, random));
  // Reverses the dimensions of the first segment's keys and queries, which keeps the dot products
  // but for rounding.
  std::vector<float> reversed(problem.q.size());
  for (size_t i = 0; i < problem.q.size(); i += 64)
    std::reverse_copy(&problem.q[i], &problem.q[i] + 64, &reversed[i]);
  Stored& first = *layout.parts[0];
  for (const auto& run : first.runs)
    for (uint32_t r = run.row; r < run.row + run.rows; ++r) {
      auto* row = reinterpret_cast<float*>(first.k.data() + size_t{r} * first.segment.k_stride);
      std::reverse(row, row + 64);
    }
  first.segment.q = reversed.data();
  layout.view.past.push_back(layout.parts[0]->segment);
  layout.view.past.push_back(layout.parts[1]->segment);
  layout.view.fresh = layout.parts[2]->segment;
  for (const Set& set : sets())
    for (const uint32_t from : {0U, 1U})
      expect_close(problem, attend(set.table, layout.view, problem.queries(from, 3 - from)), from,
                   3 - from, set);
}

TEST(Attention, TheRestTakesItsShareOfTheProbability) {
  std::mt19937 random(9);
  const Problem problem({100, 2, 2, 64, DType::kF32}, random);
  Layout layout = lay_out(problem, 1, 100, random);
  const std::vector<float> rest(64, 3.0F), mass = {0, 0.25F, 0.5F, 1};
  for (const Set& set : sets()) {
    layout.view.rest = nullptr;
    const auto without = attend(set.table, layout.view, problem.queries(0, 2));
    layout.view.rest = rest.data();
    layout.view.rest_mass = mass;
    const auto with = attend(set.table, layout.view, problem.queries(0, 2));
    for (size_t i = 0; i < with.size(); ++i)
      EXPECT_NEAR(with[i], (1 - mass[i / 64]) * without[i] + mass[i / 64] * 3, 1e-6) << set.name;
    // rest_mass is indexed by the step's queries, whichever of them this call computes.
    const auto second = attend(set.table, layout.view, problem.queries(1, 1));
    EXPECT_TRUE(std::equal(second.begin(), second.end(), with.begin() + 2 * 64)) << set.name;
  }
}

TEST(Attention, ProbabilitiesAreUnnormalisedExponentialsInRowOrder) {
  // Keys have only their first dimension, so that the test can choose logits: 0, -1/8, -2/8, ...
  // and some at -inf.
  Shape shape{299, 1, 2, 8, DType::kF32, true};
  std::mt19937 random(10);
  Problem problem(shape, random);
  for (uint32_t i = 0; i < 300; ++i)
    for (uint32_t d = 0; d < 8; ++d) problem.k[i * 8 + d] = d == 0 ? -0.125F * i : 0;
  std::fill(problem.q.begin(), problem.q.end(), 1.0F);
  std::fill(problem.bias.begin(), problem.bias.end(), 0.0F);
  problem.bias[17] = -kInf;
  problem.scale = 1;
  const Layout layout = lay_out(problem, 1, 9, random);
  for (const Set& set : sets())
    for (uint32_t chunk = 0; chunk < 3; ++chunk) {
      std::vector<float> probs(2 * kChunkRows, 5), acc(16);
      float max[2], sum[2];
      set.table.attend_chunk(layout.view, problem.queries(0, 1), chunk, {max, sum, acc.data()},
                             probs.data());
      const uint32_t rows = chunk == 0 ? 256 : chunk == 1 ? 44 : 0;
      EXPECT_EQ(max[1], rows == 0 ? -kInf : -32.0F * chunk);
      for (uint32_t i = 0; i < 2 * kChunkRows; ++i) {
        const uint32_t j = i % kChunkRows;
        const bool none = j >= rows || (chunk == 0 && j == 17);
        const double expected = none ? 0 : std::exp(-0.125 * j);
        EXPECT_NEAR(probs[i], expected, expected * (1.5e-7 + set.weights))
            << set.name << " " << chunk << " " << j;
      }
    }
}

TEST(Attention, NoVisibleRowGivesZerosAndMergesWithoutNan) {
  std::mt19937 random(11);
  Problem problem({0, 2, 3, 64, DType::kF32, false, {{}, {0, 1}}}, random);
  const Layout layout = lay_out(problem, 1, 10, random);
  Shape minus{5, 1, 1, 64, DType::kF32, true};
  Problem hidden(minus, random);
  std::fill(hidden.bias.begin(), hidden.bias.end(), -kInf);
  const Layout masked = lay_out(hidden, 1, 10, random);
  for (const Set& set : sets()) {
    const auto out = attend(set.table, layout.view, problem.queries(0, 2));
    for (size_t i = 0; i < 3 * 64; ++i) EXPECT_EQ(out[i], 0);
    EXPECT_EQ(attend(set.table, masked.view, hidden.queries(0, 1)), std::vector<float>(64, 0));
    // Merges empty into full, full into empty, and empty into empty.
    for (int i = 0; i < 4; ++i) {
      const bool a_full = (i & 1) != 0, b_full = (i & 2) != 0;
      float max[] = {a_full ? 1 : -kInf, b_full ? 1 : -kInf};
      float sum[] = {a_full ? 2.F : 0, b_full ? 2.F : 0};
      std::vector<float> acc(20, a_full ? 3.F : 0), next(20, b_full ? 3.F : 0);
      set.table.merge({max, sum, acc.data()}, {max + 1, sum + 1, next.data()}, 1, 20);
      EXPECT_EQ(max[0], i == 0 ? -kInf : 1);
      EXPECT_EQ(sum[0], 2 * (a_full + b_full));
      EXPECT_EQ(acc, std::vector<float>(20, 3 * (a_full + b_full)));
    }
  }
}

TEST(Attention, RowsThatNobodySeesMayHoldAnything) {
  std::mt19937 random(12);
  Problem problem({3, 20, 2, 64, DType::kF32}, random);
  const Layout clean = lay_out(problem, 1, 100, random);
  // Fresh rows behind the tile's last token are NaN.
  for (size_t i = (3 + 10) * 64; i < problem.k.size(); ++i)
    problem.k[i] = problem.v[i] = std::numeric_limits<float>::quiet_NaN();
  const Layout dirty = lay_out(problem, 1, 100, random);
  for (const Set& set : sets()) {
    const auto expected = attend(set.table, clean.view, problem.queries(0, 20));
    const auto out = attend(set.table, dirty.view, problem.queries(0, 20));
    EXPECT_EQ(0, std::memcmp(expected.data(), out.data(), 10 * 2 * 64 * sizeof(float))) << set.name;
  }
}

TEST(Attention, CountsChunksOfTheLongestSeeingQuery) {
  std::mt19937 random(13);
  const auto chunks = [&](uint32_t past, uint32_t fresh, uint32_t first, uint32_t tokens) {
    const Problem problem({past, fresh, 1, 8}, random);
    return chunk_count(lay_out(problem, 2, 9, random).view, problem.queries(first, tokens));
  };
  EXPECT_EQ(chunks(0, 1, 0, 1), 1U);
  EXPECT_EQ(chunks(255, 1, 0, 1), 1U);
  EXPECT_EQ(chunks(255, 2, 0, 1), 1U);
  EXPECT_EQ(chunks(255, 2, 1, 1), 2U);
  EXPECT_EQ(chunks(512, 1, 0, 1), 3U);
  const Problem listed({255, 3, 1, 8, DType::kF32, false, {{0}, {1}, {0, 2}}}, random);
  const Layout layout = lay_out(listed, 1, 9, random);
  EXPECT_EQ(chunk_count(layout.view, listed.queries(0, 2)), 1U);
  EXPECT_EQ(chunk_count(layout.view, listed.queries(0, 3)), 2U);
}

TEST(Attention, WhatItCannotTakeIsABug) {
  std::mt19937 random(14);
  const Problem problem({3, 1, 1, 8}, random);
  Layout layout = lay_out(problem, 1, 9, random);
  std::vector<float> space(4096);
  const Partial out{space.data(), space.data() + 1, space.data() + 2};
  for (const Set& set : sets()) {
    const auto refuses = [&](auto change) {
      Queries queries = problem.queries(0, 1);
      View view = layout.view;
      change(queries, view);
      EXPECT_THROW(set.table.attend_chunk(view, queries, 0, out, nullptr), base::Bug);
    };
    refuses([](Queries& q, View&) { q.k_dim = 12; });
    refuses([](Queries& q, View&) { q.v_dim = 12; });
    refuses([](Queries& q, View&) { q.k_dim = 648; });
    refuses([](Queries& q, View&) { q.group = 0; });
    refuses([](Queries& q, View&) { q.first = 1; });
    refuses([](Queries& q, View&) { q.slopes = q.q, q.window = 4; });
    refuses([](Queries&, View& v) { v.fresh.k_type = DType::kQ8_0; });
    refuses([](Queries&, View& v) { v.fresh.v_type = DType::kQ8; });  // of 8 values
  }
}

}  // namespace
}  // namespace kvick::kernels
