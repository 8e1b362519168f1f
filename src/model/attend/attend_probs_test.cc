#include "model/attend/attend_probs.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "kernels/table/table.h"

namespace kvick::model {
namespace {

constexpr uint32_t kPast = 600, kFresh = 4, kGroup = 2, kDims = 16;

std::vector<float> random_floats(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> made(n);
  for (float& x : made) x = normal(random);
  return made;
}

kernels::Segment segment_of(const std::vector<float>& rows, const kernels::Run& run) {
  kernels::Segment segment;
  segment.k = segment.v = reinterpret_cast<const std::byte*>(rows.data());
  segment.k_stride = segment.v_stride = kDims * sizeof(float);
  segment.runs = {&run, 1};
  return segment;
}

// The definition, for the queries of tokens [first, first + tokens).
void naive(const std::vector<float>& rows, const kernels::Queries& queries,
           std::vector<double>& sums) {
  for (uint32_t i = 0; i < queries.tokens * kGroup; ++i) {
    const uint32_t token = queries.first + i / kGroup;
    std::vector<uint32_t> seen(kPast);
    for (uint32_t row = 0; row < kPast; ++row) seen[row] = row;
    if (queries.visible != nullptr)
      for (const uint32_t fresh : queries.visible[token]) seen.push_back(kPast + fresh);
    else
      for (uint32_t fresh = 0; fresh <= token; ++fresh) seen.push_back(kPast + fresh);
    if (queries.window != 0)
      seen.erase(seen.begin(), seen.end() - std::min<long>(queries.window, std::ssize(seen)));
    std::vector<double> weights;
    double total = queries.sinks != nullptr ? std::exp(queries.sinks[i % kGroup]) : 0;
    for (const uint32_t row : seen) {
      double logit = 0;
      for (uint32_t d = 0; d < kDims; ++d)
        logit += double{queries.q[i / kGroup * queries.q_stride + i % kGroup * kDims + d]} *
                 rows[row * kDims + d];
      weights.push_back(std::exp(logit * queries.scale));
      total += weights.back();
    }
    for (size_t at = 0; at < seen.size(); ++at) sums[seen[at]] += weights[at] / total;
  }
}

void expect_probs(const std::span<const uint32_t>* visible, uint32_t window = 0,
                  const float* sinks = nullptr) {
  const kernels::Table& table = kernels::table(base::best_isa());
  const std::vector<float> rows = random_floats((kPast + kFresh) * kDims, 1);
  const std::vector<float> q = random_floats(kFresh * kGroup * kDims, 2);
  const kernels::Run past = {0, kPast, 0}, fresh = {kPast, kFresh, kPast};
  kernels::View view;
  view.past.push_back(segment_of(rows, past));
  view.fresh = segment_of(rows, fresh);
  ASSERT_EQ(rows_of(view), kPast + kFresh);
  std::vector<float> sums(kPast + kFresh);
  std::vector<double> expected(sums.size());
  TaskProbs probs;
  for (const uint32_t first : {0U, 1U}) {  // two tasks: tokens 0, and 1 to 3
    const kernels::Queries queries = {.q = q.data() + first * kGroup * kDims,
                                      .q_stride = kGroup * kDims,
                                      .first = first,
                                      .tokens = first == 0 ? 1 : kFresh - 1,
                                      .group = kGroup,
                                      .k_dim = kDims,
                                      .v_dim = kDims,
                                      .scale = 0.25F,
                                      .sinks = sinks,
                                      .visible = visible,
                                      .window = window,
                                      .position = kPast};
    const uint32_t n = queries.tokens * kGroup, chunks = kernels::chunk_count(view, queries);
    std::vector<float> memory(2 * n * (2 + kDims));
    const auto partial = [&](float* at) {
      return kernels::Partial{.max = at, .sum = at + n, .acc = at + 2 * n};
    };
    const kernels::Partial state = partial(memory.data());
    const kernels::Partial next = partial(memory.data() + n * (2 + kDims));
    probs.start(chunks, n);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      const kernels::Partial part = chunk == 0 ? state : next;
      table.attend_chunk(view, queries, chunk, part, probs.of(chunk));
      probs.keep_max(chunk, part.max);
      if (chunk > 0) table.merge(state, next, n, kDims);
    }
    probs.add_to(view, queries, state, sums);
    naive(rows, queries, expected);
    for (uint32_t token = first; token < first + queries.tokens; ++token) {
      kernels::Queries one = queries;
      one.q += (token - first) * one.q_stride;
      one.first = token;
      one.tokens = 1;
      std::vector<float> own(sums.size());
      std::vector<double> own_expected(sums.size());
      probs.add_token(view, queries, state, token, own);
      naive(rows, one, own_expected);
      for (size_t row = 0; row < own.size(); ++row)
        EXPECT_NEAR(own[row], own_expected[row], 1e-5) << "token " << token << " row " << row;
    }
  }
  for (size_t row = 0; row < sums.size(); ++row) EXPECT_NEAR(sums[row], expected[row], 1e-5) << row;
}

TEST(TaskProbs, AreTheSoftmaxOverAllChunksSummedOverQueries) { expect_probs(nullptr); }

const std::vector<uint32_t> kPaths[kFresh] = {{0}, {0, 1}, {0, 2}, {0, 2, 3}};
const std::span<const uint32_t> kVisible[kFresh] = {kPaths[0], kPaths[1], kPaths[2], kPaths[3]};

TEST(TaskProbs, GoToTheFreshRowsOnEachTokensPath) { expect_probs(kVisible); }

TEST(TaskProbs, GoToTheRowsInsideAWindow) {
  for (const uint32_t window : {1U, 2U, 90U, 345U, 601U, 2000U}) {
    expect_probs(nullptr, window);
    expect_probs(kVisible, window);
  }
}

TEST(TaskProbs, LeaveTheSinksTheirPart) {
  const float sinks[kGroup] = {3, -1};
  expect_probs(nullptr, 0, sinks);
  expect_probs(nullptr, 100, sinks);
}

}  // namespace
}  // namespace kvick::model
