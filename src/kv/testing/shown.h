#pragma once
// Gathers the rows that a step shows and compares them with those written.

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>

#include "kv/testing/rows.h"

namespace kvick::kv::test {

// Appends the rows of a segment to `out`, as bytes.
inline void append(const kernels::Segment& segment, bool is_v, uint32_t dims,
                   std::vector<std::byte>& out) {
  const size_t row_bytes = kernels::dtype_bytes(is_v ? segment.v_type : segment.k_type, dims);
  const std::byte* data = is_v ? segment.v : segment.k;
  const uint32_t stride = is_v ? segment.v_stride : segment.k_stride;
  for (const kernels::Run& run : segment.runs)
    for (uint32_t i = 0; i < run.rows; ++i) {
      const std::byte* row = data + size_t{run.row + i} * stride;
      const size_t at = out.size();
      out.resize(at + row_bytes);
      std::memcpy(out.data() + at, row, row_bytes);
    }
}

// Returns whether a policy uses this segment to stand for rows that are not read: only then a
// segment has a bias.
inline bool stands_in(const kernels::Segment& segment) { return segment.row_bias != nullptr; }

// Returns all rows of a view in order, as bytes: committed, then fresh.
inline std::vector<std::byte> gather(const kernels::View& view, const Shape& shape, bool is_v) {
  std::vector<std::byte> out;
  for (const kernels::Segment& segment : view.past)
    if (!stands_in(segment)) append(segment, is_v, shape.dim(is_v), out);
  append(view.fresh, is_v, shape.dim(is_v), out);
  return out;
}

inline uint32_t rows_of(const kernels::View& view) {
  uint32_t rows = kernels::rows_of(view.fresh);
  for (const kernels::Segment& segment : view.past)
    if (!stands_in(segment)) rows += kernels::rows_of(segment);
  return rows;
}

// Returns how many probabilities of a view an observer takes.
inline size_t probs_of(const Observer& observer, uint32_t layer, const kernels::View& view) {
  if (observer.apart(layer) == Observer::kQueriesOnly) return 0;
  const uint32_t apart = std::min(observer.apart(layer), kernels::rows_of(view.fresh));
  return size_t{rows_of(view)} * std::max(1U, apart);
}

// Returns the positions of the committed rows, in order.
inline Rows positions(const kernels::View& view) {
  Rows all;
  for (const kernels::Segment& segment : view.past)
    for (const kernels::Run& run : segment.runs)
      for (uint32_t i = 0; i < run.rows && !stands_in(segment); ++i) all.push_back(run.pos + i);
  return all;
}

// Returns a query with up to 512 tokens and a group of one.
inline Query query_of(uint32_t slot, uint32_t layer, uint32_t head) {
  static const std::vector<float> queries = [] {
    std::vector<float> made(512 * 32 + 64);
    for (uint32_t i = 0; i < made.size(); ++i) made[i] = value_of(i, 7, 7, false, i);
    return made;
  }();
  return {.slot = slot, .layer = layer, .head = head, .q = queries.data() + head, .q_stride = 32};
}

// Returns the bytes that attention reads for a step's slot 0.
inline uint64_t read_bytes(Step& step, const Shape& shape, const Slots* slots) {
  if (slots != nullptr) {  // the values, and the keys as packed
    uint64_t bytes = slots->initial.size_bytes();
    for (const kernels::Matrix& keys : slots->keys) bytes += keys.data.size();
    return bytes;
  }
  base::Arena scratch;
  kernels::View view;
  uint64_t bytes = 0;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view(query_of(0, layer, head), scratch, view);
      bytes += gather(view, shape, false).size() + gather(view, shape, true).size();
    }
  return bytes;
}

struct Shown {
  uint32_t slot = 0, committed = 0;  // committed tokens of its sequence
  // Heads, one after the other, that share the rows of a policy that forgets: some have more, some
  // fewer.
  uint32_t together = 1;
};
// Expects that one slot shows `rows`: the last `fresh` ones are this step's, the others the newest
// committed ones.
inline void expect_shows(Step& step, const Shape& shape, const Shown& what, const Rows& rows,
                         uint32_t fresh) {
  base::Arena scratch;
  kernels::View view;
  const auto committed = static_cast<uint32_t>(rows.size()) - fresh;
  const uint32_t old = shape.aging ? shape.aging->old_rows(committed) : 0;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view({.slot = what.slot, .layer = layer, .head = head}, scratch, view);
      ASSERT_EQ(kernels::rows_of(view.fresh), fresh);
      for (const bool is_v : {false, true})
        ASSERT_TRUE(
            are_same(gather(view, shape, is_v), bytes_of(shape, rows, layer, head, is_v, old)))
            << "slot " << what.slot << " layer " << layer << " head " << head
            << (is_v ? " v" : " k");
      Rows expected(rows.size() - fresh);
      std::iota(expected.begin(), expected.end(),
                what.committed - static_cast<uint32_t>(expected.size()));
      ASSERT_EQ(positions(view), expected);
    }
}

}  // namespace kvick::kv::test
