#pragma once
// Compares the rows that a step shows under a policy, which may be some rows only, with those
// written.

#include <functional>
#include <map>
#include <set>
#include <string>

#include "kv/strategy/selection.h"
#include "kv/testing/policies.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {

// Expects that one slot shows some of its committed rows: all outside [top_rows.first,
// top_rows.last), and top_rows.take inside if this layer and step select rows.
inline void expect_shows_some(Step& step, const Shape& shape, const Shown& what, const Rows& rows,
                              const TopRows& top_rows) {
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view(query_of(what.slot, layer, head), scratch, view);
      const Rows past = positions(view);
      if (past.size() != what.committed) {
        ASSERT_EQ(past.size(), top_rows.read_rows(what.committed));
      }
      uint32_t chosen = 0;
      for (const Row row : past) chosen += row >= top_rows.first && row < top_rows.last ? 1 : 0;
      ASSERT_EQ(past.size() - chosen, what.committed - (top_rows.last - top_rows.first));
      ASSERT_TRUE(std::is_sorted(past.begin(), past.end(), std::less_equal<>()));
      Rows expected;
      for (const Row row : past) expected.push_back(rows[row]);
      expected.insert(expected.end(), rows.begin() + what.committed, rows.end());
      for (const bool is_v : {false, true})
        ASSERT_TRUE(
            are_same(gather(view, shape, is_v), bytes_of(shape, expected, layer, head, is_v)));
    }
}

// Returns bytes as text, which sanitized builds compare without a call per byte.
inline std::string text_of(const std::vector<std::byte>& bytes, size_t first, size_t count) {
  return {reinterpret_cast<const char*>(bytes.data()) + first, count};
}
inline std::string text_of(const std::vector<std::byte>& bytes) {
  return text_of(bytes, 0, bytes.size());
}

// Returns the index among `rows` of each row of a view, committed and fresh, found by its keys and
// values. Fails if a row is not among them.
inline Rows find_rows(const kernels::View& view, const Shape& shape, const Rows& rows,
                      const Query& query) {
  const std::vector<std::byte> k = bytes_of(shape, rows, query.layer, query.head, false);
  const std::vector<std::byte> v = bytes_of(shape, rows, query.layer, query.head, true);
  const std::vector<std::byte> shown_k = gather(view, shape, false);
  const std::vector<std::byte> shown_v = gather(view, shape, true);
  const size_t k_bytes = shape.row_bytes(false), v_bytes = shape.row_bytes(true);
  const auto row_at = [&](const auto& keys, const auto& values, size_t i) {
    return text_of(keys, i * k_bytes, k_bytes) + text_of(values, i * v_bytes, v_bytes);
  };
  std::map<std::string, Row> places;
  for (uint32_t i = 0; i < rows.size(); ++i) places[row_at(k, v, i)] = i;
  Rows found;
  for (uint32_t i = 0; i < rows_of(view); ++i) {
    const auto place = places.find(row_at(shown_k, shown_v, i));
    if (place == places.end())
      ADD_FAILURE() << "row " << i << " of the view was never written: layer " << query.layer
                    << " head " << query.head;
    else
      found.push_back(place->second);
  }
  return found;
}

// Expects that one slot shows what a policy may keep of its committed rows: as many as the budget
// allows, on average over the heads that share them, among them the first and the newest ones, each
// once, per head in any order; and all fresh rows.
inline void expect_shows_left(Step& step, const Shape& shape, const Shown& what, const Rows& rows,
                              const Selection& selection) {
  base::Arena scratch;
  kernels::View view;
  const auto fresh = static_cast<uint32_t>(rows.size()) - what.committed;
  const auto expect_within_budget = [&](size_t held, size_t heads) {
    if (held >= heads * what.committed) return;
    ASSERT_LE(held, heads * selection.rows);
    ASSERT_GT(held + heads * kTriedDrop, heads * selection.rows);
  };
  size_t held = 0;  // by the heads so far that share with the next one
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const Query query = query_of(what.slot, layer, head);
      step.view(query, scratch, view);
      const Rows found = find_rows(view, shape, rows, query);
      ASSERT_GE(found.size(), fresh);
      const auto left = found.end() - fresh;
      for (uint32_t i = 0; i < fresh; ++i) ASSERT_EQ(left[i], what.committed + i);
      const std::set<Row> past(found.begin(), left);
      ASSERT_EQ(past.size(), found.size() - fresh) << "a row is shown twice";
      ASSERT_LE(past.size(), what.committed);
      held += past.size();
      if ((layer * shape.kv_heads + head + 1) % what.together == 0) {
        expect_within_budget(held, what.together);
        held = 0;
      }
      for (uint32_t i = 0; i < std::min(selection.sinks, what.committed); ++i)
        ASSERT_TRUE(past.contains(i)) << i;
      for (uint32_t i = 0; i < std::min(selection.recent, what.committed); ++i)
        ASSERT_TRUE(past.contains(what.committed - 1 - i)) << i;
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

// Everything that one head of a step's slot 0 shows: rows, positions, and what stands for other
// rows.
struct AllShown {
  std::string k, v;
  Rows positions;
  std::vector<float> rest;
  bool operator==(const AllShown&) const = default;
};
inline AllShown all_shown(Step& step, const Shape& shape, uint32_t layer, uint32_t head) {
  base::Arena scratch;
  kernels::View view;
  step.view(query_of(0, layer, head), scratch, view);
  AllShown all = {
      text_of(gather(view, shape, false)), text_of(gather(view, shape, true)), positions(view), {}};
  if (view.rest != nullptr) all.rest.assign(view.rest, view.rest + shape.dim(true));
  all.rest.insert(all.rest.end(), view.rest_mass.begin(), view.rest_mass.end());
  return all;
}

}  // namespace kvick::kv::test
