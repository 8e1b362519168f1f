// Compares SparQ with its definition, and the means that stand for rows with those of the rows.

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

// With all components SparQ's estimates are exact: the rest must have the attention probability of
// the rows that are not read.
TEST(SparQ, GivesTheRestItsShareOfTheModelsSoftmax) {
  const Shape shape = {.layers = 1,
                       .kv_heads = 1,
                       .head_dim = 16,
                       .max_tokens = 200,
                       .k_type = kernels::DType::kF32};
  constexpr uint32_t kFresh = 4;
  const float sink = 5;
  // A tree: token 0 has children 1 and 2, and 2 has child 3.
  const std::vector<uint32_t> seen[kFresh] = {{0}, {0, 1}, {0, 2}, {0, 2, 3}};
  const std::span<const uint32_t> tree[kFresh] = {seen[0], seen[1], seen[2], seen[3]};
  for (const Query& told :
       {Query{.scale = 0.1F}, Query{.scale = 0.1F, .softcap = 2}, Query{.scale = 4, .softcap = 2},
        Query{.scale = 0.1F, .sinks = &sink}, Query{.scale = 0.02F, .path = tree}}) {
    Pair p("virtual sparq:r=16,budget=30,recent=5", shape);
    const SeqId a = p.open();
    p.add(a, 100);
    auto step = p.begin({{a, kFresh}});
    write_all(*step, shape, p.fresh);
    Query query = told;
    query.q = query_of(0, 0, 0).q;
    query.q_stride = 32;
    base::Arena scratch;
    kernels::View view;
    step->view(query, scratch, view);
    const Rows read = positions(view);
    ASSERT_EQ(view.rest_mass.size(), kFresh);
    for (uint32_t t = 0; t < kFresh; ++t) {
      const auto weight = [&](Row row) {
        double logit = 0;
        for (uint32_t i = 0; i < shape.head_dim; ++i)
          logit += double{query.q[t * query.q_stride + i]} * value_of(row, 0, 0, false, i);
        logit *= query.scale;
        return std::exp(query.softcap != 0 ? query.softcap * std::tanh(logit / query.softcap)
                                           : logit);
      };
      double all = query.sinks != nullptr ? std::exp(sink) : 0, left = 0;
      for (uint32_t pos = 0; pos < 100; ++pos) {
        const double mass = weight(p.twin[a][pos]);
        all += mass;
        if (std::find(read.begin(), read.end(), pos) == read.end()) left += mass;
      }
      for (uint32_t row = 0; row <= t; ++row)
        if (query.path == nullptr || std::ranges::find(seen[t], row) != seen[t].end())
          all += weight(p.fresh[row]);
      EXPECT_NEAR(view.rest_mass[t], left / all, 1e-4) << t;
    }
  }
}

// Values may be shorter or longer than keys: means of omitted rows must cover whole values.
TEST(Policies, TakeMeansOfValuesOfAnyLength) {
  for (const uint32_t v_dim : {8U, 24U}) {
    const Shape shape = {.layers = 1,
                         .kv_heads = 1,
                         .head_dim = 16,
                         .max_tokens = 200,
                         .k_type = kernels::DType::kF32,
                         .v_type = kernels::DType::kF32,
                         .v_dim = v_dim};
    constexpr uint32_t kRows = 100, kBlock = 8;
    const auto look = [&](const char* spec, const auto& check) {
      Pair p(spec, shape);
      const SeqId a = p.open();
      p.add(a, kRows);
      auto step = p.begin({{a, 1}});
      write_all(*step, shape, p.fresh);
      base::Arena scratch;
      kernels::View view;
      step->view(query_of(0, 0, 0), scratch, view);
      check(view, p.twin[a]);
    };
    look("virtual sparq:r=4,budget=30,recent=5", [&](const kernels::View& view, const Rows& rows) {
      ASSERT_NE(view.rest, nullptr);
      for (uint32_t i = 0; i < v_dim; ++i) {
        double sum = 0;
        for (const Row row : rows) sum += value_of(row, 0, 0, true, i);
        EXPECT_NEAR(view.rest[i], sum / kRows, 1e-4) << i << " of " << v_dim;
      }
    });
    // Groups of one row each.
    look("virtual clusters:cluster=1,block=8,budget=30,recent=5,sinks=0",
         [&](const kernels::View& view, const Rows& rows) {
           uint32_t row = 0;
           for (const kernels::Segment& segment : view.past) {
             if (!stands_in(segment)) continue;
             for (uint32_t mean = 0; mean < kernels::rows_of(segment); ++mean, ++row) {
               std::vector<float> value(v_dim);
               kernels::to_f32(segment.v_type, segment.v + mean * segment.v_stride, v_dim,
                               value.data());
               for (uint32_t i = 0; i < v_dim; ++i)
                 EXPECT_NEAR(value[i], value_of(rows[row], 0, 0, true, i), 4e-3) << row;
             }
           }
           EXPECT_GE(row, kRows - kBlock);
         });
  }
}

}  // namespace
}  // namespace kvick::kv::test
