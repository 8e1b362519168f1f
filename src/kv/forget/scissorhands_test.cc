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
    for (Note& note : rows)
      if (probs.at(note.row) / static_cast<float>(fresh) < 1 / all) note.lows += fresh;
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

}  // namespace
}  // namespace kvick::kv::test
