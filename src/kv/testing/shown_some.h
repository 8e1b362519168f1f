#pragma once
// What a step of a policy shows, which is a part of the rows, compared with what was written.

#include <functional>
#include <set>

#include "kv/strategy/selection.h"
#include "kv/testing/policies.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {

// Expects that one slot shows some of its committed rows: all before choosing.first and from
// choosing.last on, and choosing.take of the others, if the layer and the step choose.
inline void expect_shows_some(Step& step, const Shape& shape, const Shown& what, const Rows& rows,
                              const Choosing& choosing) {
  base::Arena scratch;
  kernels::View view;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      step.view(query_of(what.slot, layer, head), scratch, view);
      const Rows past = positions(view);
      if (past.size() != what.committed) {
        ASSERT_EQ(past.size(), choosing.read_rows(what.committed));
      }
      uint32_t chosen = 0;
      for (const Row row : past) chosen += row >= choosing.first && row < choosing.last ? 1 : 0;
      ASSERT_EQ(past.size() - chosen, what.committed - (choosing.last - choosing.first));
      ASSERT_TRUE(std::is_sorted(past.begin(), past.end(), std::less_equal<>()));
      Rows expected;
      for (const Row row : past) expected.push_back(rows[row]);
      expected.insert(expected.end(), rows.begin() + what.committed, rows.end());
      for (const bool is_v : {false, true})
        ASSERT_TRUE(
            are_same(gather(view, shape, is_v), bytes_of(shape, expected, layer, head, is_v)));
    }
}

// The rows of a view, committed and fresh, by their place among `rows`, whose keys and values are
// looked for. Fails where there is none.
inline Rows find_rows(const kernels::View& view, const Shape& shape, const Rows& rows,
                      const Query& query) {
  std::vector<std::byte> shown[2];
  std::map<std::vector<std::byte>, Row> places;
  const size_t bytes[2] = {shape.row_bytes(false), shape.row_bytes(true)};
  const auto row_at = [&](const std::vector<std::byte>(&all)[2], size_t i) {
    std::vector<std::byte> row;
    for (const int is_v : {0, 1})
      row.insert(row.end(), all[is_v].begin() + static_cast<ptrdiff_t>(i * bytes[is_v]),
                 all[is_v].begin() + static_cast<ptrdiff_t>((i + 1) * bytes[is_v]));
    return row;
  };
  const std::vector<std::byte> written[2] = {bytes_of(shape, rows, query.layer, query.head, false),
                                             bytes_of(shape, rows, query.layer, query.head, true)};
  for (uint32_t i = 0; i < rows.size(); ++i) places[row_at(written, i)] = i;
  for (const int is_v : {0, 1}) shown[is_v] = gather(view, shape, is_v == 1);
  Rows found;
  for (uint32_t i = 0; i < rows_of(view); ++i) {
    const auto place = places.find(row_at(shown, i));
    if (place == places.end())
      ADD_FAILURE() << "row " << i << " of the view was never written: layer " << query.layer
                    << " head " << query.head;
    else
      found.push_back(place->second);
  }
  return found;
}

// Expects that one slot shows what a policy that forgets may leave of its committed rows, which
// each head may keep in any order: as many as the budget says, the first ones and the newest ones
// among them, each once; and all fresh ones.
inline void expect_shows_left(Step& step, const Shape& shape, const Shown& what, const Rows& rows,
                              const Selection& selection) {
  base::Arena scratch;
  kernels::View view;
  const auto fresh = static_cast<uint32_t>(rows.size()) - what.committed;
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      const Query query = query_of(what.slot, layer, head);
      step.view(query, scratch, view);
      const Rows found = find_rows(view, shape, rows, query);
      ASSERT_GE(found.size(), fresh);
      const auto left = found.end() - fresh;
      for (uint32_t i = 0; i < fresh; ++i) ASSERT_EQ(left[i], what.committed + i);
      const std::set<Row> past(found.begin(), left);
      ASSERT_EQ(past.size(), found.size() - fresh) << "a row is shown twice";
      if (past.size() < what.committed) {
        ASSERT_LE(past.size(), selection.rows);
        ASSERT_GT(past.size() + kTriedDrop, selection.rows);
      }
      for (uint32_t i = 0; i < std::min(selection.sinks, what.committed); ++i)
        ASSERT_TRUE(past.contains(i)) << i;
      for (uint32_t i = 0; i < std::min(selection.recent, what.committed); ++i)
        ASSERT_TRUE(past.contains(what.committed - 1 - i)) << i;
    }
}

// All that one head of a step's slot 0 shows: rows, their positions, and what stands for others.
struct AllShown {
  std::vector<std::byte> k, v;
  Rows positions;
  std::vector<float> rest;
  bool operator==(const AllShown&) const = default;
};
inline AllShown all_shown(Step& step, const Shape& shape, uint32_t layer, uint32_t head) {
  base::Arena scratch;
  kernels::View view;
  step.view(query_of(0, layer, head), scratch, view);
  AllShown all = {gather(view, shape, false), gather(view, shape, true), positions(view), {}};
  if (view.rest != nullptr) all.rest.assign(view.rest, view.rest + shape.dim(true));
  all.rest.insert(all.rest.end(), view.rest_mass.begin(), view.rest_mass.end());
  return all;
}

}  // namespace kvick::kv::test
