// Compares `scissorhands` with its definition.

#include <algorithm>
#include <gtest/gtest.h>

#include "kv/testing/cases.h"
#include "kv/testing/shown_some.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {
namespace {

constexpr Shape kShape = {.layers = 2,
                          .kv_heads = 2,
                          .head_dim = 8,
                          .max_tokens = 400,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};

// One head by the definition: a list of rows, and how often each got less than an even share.
struct Lows {
  struct Note {
    Row row;
    uint32_t pos, lows = 0;
  };
  std::vector<Note> rows;  // oldest first
  uint32_t tokens = 0;

  void end_step(const Rows& kept, const std::map<Row, float>& probs, uint32_t fresh) {
    const auto all = static_cast<float>(rows.size() + fresh);
    for (const Row row : kept) rows.push_back({.row = row, .pos = tokens++});
    for (size_t i = 0; i < rows.size(); ++i) {  // the last `fresh` rows are the step's
      const auto seen = static_cast<uint32_t>(std::min<size_t>(fresh, rows.size() - i));
      if (probs.at(rows[i].row) / static_cast<float>(seen) < 1 / all) rows[i].lows += seen;
    }
  }
  // Drops rows until `left` remain; called when the number of tokens is a multiple of `drop`.
  void give_up(uint32_t left, uint32_t recent) {
    if (rows.size() <= left) return;
    while (rows.size() > left) {
      const auto newest = rows.end() - recent;
      rows.erase(std::max_element(rows.begin(), newest,
                                  [](const Note& a, const Note& b) { return a.lows < b.lows; }));
    }
    for (Note& note : rows) note.lows = 0;
  }
  Rows numbers() const {
    Rows all;
    for (const Note& note : rows) all.push_back(note.row);
    return all;
  }
};

TEST(Scissorhands, GivesUpRowsThatRecentQueriesPaidLittleAttentionTo) {
  constexpr uint32_t kBudget = 20, kDrop = 6, kRecent = 4;
  Pair p(fmt::format("virtual scissorhands:budget={},drop={},recent={}", kBudget, kDrop, kRecent),
         kShape);
  const SeqId a = p.open();
  std::map<std::pair<uint32_t, uint32_t>, Lows> twins;  // by layer and head
  for (uint32_t turn = 0; turn < 120; ++turn) {
    const uint32_t fresh = turn == 0 ? 18 : 1;
    auto step = p.begin({{a, fresh}});
    write_all(*step, kShape, p.fresh);
    const bool dropped = turn % 5 == 3;
    const Rows all = p.shown(0);
    for (uint32_t layer = 0; layer < 2; ++layer)
      for (uint32_t head = 0; head < 2; ++head) {
        Lows& twin = twins[{layer, head}];
        base::Arena scratch;
        kernels::View view;
        const Query query = query_of(0, layer, head);
        step->view(query, scratch, view);
        const Rows places = find_rows(view, kShape, all, query);
        std::vector<float> probs;
        std::map<Row, float> of;
        const auto rows = static_cast<float>(twin.rows.size() + fresh);
        for (const Row place : places) {
          const uint32_t number =
              (all[place] * 2654435761U ^ turn * 977 ^ layer * 31 ^ head) % 1009;
          of[all[place]] = static_cast<float>(fresh * number) / (505 * rows);
          probs.push_back(of[all[place]]);
        }
        Rows past;
        for (size_t i = 0; i + fresh < places.size(); ++i) past.push_back(all[places[i]]);
        std::sort(past.begin(), past.end());
        ASSERT_EQ(past, twin.numbers()) << turn;
        step->facets().observer->observe(query, view, probs);
        if (dropped) continue;
        twin.end_step(p.fresh, of, fresh);
        if (twin.tokens % kDrop == 0) twin.give_up(kBudget - kDrop + 1, kRecent);
        ASSERT_LE(twin.rows.size(), kBudget);
      }
    if (!dropped) p.commit(*step, Kept::all({p.slots}));
  }
}

// Four tokens in one step, then one by one until rows are dropped at eight tokens. Counted with all
// queries of their step, rows 1 to 3 would have too little attention in it, and row 3 would go
// before row 0.
TEST(Scissorhands, CountsARowOfAStepOnlyForTheQueriesThatSeeIt) {
  Pair p("virtual scissorhands:budget=12,drop=8,recent=1", kShape);
  const SeqId a = p.open();
  // shares: of each row's attention, in even shares per query that sees it.
  const auto step_with = [&](const std::vector<float>& shares, uint32_t fresh) {
    const auto step = p.begin({{a, fresh}});
    write_all(*step, kShape, p.fresh);
    std::vector<float> probs;
    for (size_t i = 0; i < shares.size(); ++i) {
      const size_t seen = std::min<size_t>(fresh, shares.size() - i);
      probs.push_back(shares[i] * static_cast<float>(seen) / static_cast<float>(shares.size()));
    }
    for (uint32_t layer = 0; layer < kShape.layers; ++layer)
      for (uint32_t head = 0; head < kShape.kv_heads; ++head) {
        base::Arena scratch;
        kernels::View view;
        step->view(query_of(0, layer, head), scratch, view);
        step->facets().observer->observe(query_of(0, layer, head), view, probs);
      }
    p.commit(*step, Kept::all({p.slots}));
  };
  constexpr float kLess = 0.9F, kMore = 1.1F;
  step_with({kMore, kMore, kMore, kLess}, 4);                              // row 3: 1
  step_with({kLess, kLess, kLess, kMore, kMore}, 1);                       // rows 0, 1, 2: 1
  step_with({kLess, kLess, kLess, kMore, kMore, kMore}, 1);                // 2
  step_with({kMore, kLess, kLess, kMore, kMore, kMore, kMore}, 1);         // rows 1, 2: 3
  step_with({kMore, kMore, kLess, kMore, kMore, kMore, kMore, kMore}, 1);  // row 2: 4
  const auto look = p.begin({{a, 1}});
  write_all(*look, kShape, p.fresh);
  base::Arena scratch;
  kernels::View view;
  const Query query = query_of(0, 1, 0);
  look->view(query, scratch, view);
  Rows past = find_rows(view, kShape, p.shown(0), query);
  past.pop_back();  // the fresh row
  std::sort(past.begin(), past.end());
  EXPECT_EQ(past, (Rows{3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace kvick::kv::test
