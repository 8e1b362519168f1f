#pragma once
// For tests: the trivial model of a store, which is a list of row numbers per sequence.

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "kv/registry/registry.h"
#include "kv/strategy/facet_calls.h"
#include "kv/testing/memory.h"
#include "kv/testing/shown.h"

namespace kvick::kv::test {

// A store beside its trivial model. Every call goes to both.
struct Pair {
  Pair(const std::string& text, const Shape& shape_of_all, uint64_t max_bytes = UINT64_MAX,
       std::shared_ptr<Budget> budget = {})
      : shape(shape_of_all), shows_rows(!setup_for(text, shape).slots) {
    const Spec spec = spec_of(text);
    Setup setup = setup_for(text, shape, max_bytes);
    setup.limits.budget = std::move(budget);
    auto made = make_store(spec, setup);
    if (!made.ok()) ADD_FAILURE() << made.error().message;
    store = std::move(made).value();
    if (find_strategy(spec.name)->traits.endless) most_held = shape.max_tokens - 1;
  }

  SeqId open() {
    const SeqId seq = store->open({}).seq;
    twin[seq];
    return seq;
  }
  void close(SeqId seq) {
    store->close(seq);
    twin.erase(seq);
  }
  // Invents rows for the slots; null if there is no room.
  std::unique_ptr<Step> begin(std::vector<Slot> wanted) {
    slots = std::move(wanted);
    auto step = store->begin({slots});
    if (!step.ok()) {
      shortage = step.error();
      return nullptr;
    }
    fresh.clear();
    for (const Slot& slot : slots)
      for (uint32_t i = 0; i < slot.fresh; ++i) fresh.push_back(next_row++);
    return std::move(step).value();
  }
  void commit(Step& step, const Kept& kept) {
    step.commit(kept);
    size_t first = 0;
    for (size_t s = 0; s < slots.size(); first += slots[s++].fresh)
      for (const uint32_t row : kept.rows[s]) twin[slots[s].seq].push_back(fresh[first + row]);
  }
  // Committed rows that a sequence still has: all of them, if it ends at max_tokens and has no
  // window.
  Rows held(SeqId seq) const {
    const Rows& all = twin.at(seq);
    const ptrdiff_t seen = std::ssize(all) - shape.first_seen(static_cast<uint32_t>(all.size()));
    return {all.end() - std::min<ptrdiff_t>(seen, most_held), all.end()};
  }
  // Rows that slot s should show: what is committed, then its fresh ones.
  Rows shown(uint32_t s) const {
    size_t first = 0;
    for (uint32_t i = 0; i < s; ++i) first += slots[i].fresh;
    Rows rows = held(slots[s].seq);
    rows.insert(rows.end(), fresh.begin() + first, fresh.begin() + first + slots[s].fresh);
    return rows;
  }
  std::vector<std::byte> bytes_shown(uint32_t s, uint32_t layer, uint32_t head, bool is_v) const {
    const auto committed = static_cast<uint32_t>(twin.at(slots[s].seq).size());
    return bytes_of(shape, shown(s), layer, head, is_v,
                    shape.aging ? shape.aging->old_rows(committed) : 0);
  }
  void expect_all_shown(Step& step) const {
    if (!shows_rows) return;
    for (uint32_t s = 0; s < slots.size(); ++s)
      expect_shows(step, shape, {s, static_cast<uint32_t>(twin.at(slots[s].seq).size())}, shown(s),
                   slots[s].fresh);
  }
  // Of a policy that leaves rows in place.
  void expect_some_shown(Step& step, uint32_t s, const Choosing& choosing) const {
    expect_shows_some(step, shape, {s, static_cast<uint32_t>(twin.at(slots[s].seq).size())},
                      shown(s), choosing);
  }
  // One whole step that keeps everything.
  void add(SeqId seq, uint32_t rows) {
    auto step = begin({{seq, rows}});
    ASSERT_NE(step, nullptr) << shortage.what;
    write_all(*step, shape, fresh);
    commit(*step, Kept::all({slots}));
  }
  // Rows [first, first + count) of a sequence, as they are stored.
  std::vector<std::byte> read(SeqId seq, uint32_t first, uint32_t count) const {
    std::vector<std::byte> bytes(count * shape.token_bytes());
    store->facets().rows->read_rows(seq, first, count, bytes);
    return bytes;
  }
  // Appends such rows; false if there is no room. A row's number is its token, so that equal tokens
  // have equal rows.
  bool append(SeqId seq, const Rows& rows, std::span<const std::byte> bytes) {
    const std::vector<Token> tokens(rows.begin(), rows.end());
    const auto appended = append_rows(*store, seq, tokens, bytes);
    if (!appended.ok())
      shortage = appended.error();
    else
      twin[seq].insert(twin[seq].end(), rows.begin(), rows.end());
    return appended.ok();
  }
  // Looks at the committed rows of every sequence through steps that are dropped.
  void expect_contents() {
    for (const auto& [seq, rows] : twin) {
      ASSERT_EQ(store->length(seq), rows.size());
      if (rows.empty() || rows.size() == store->most_tokens()) continue;
      auto step = begin({{seq, 1}});
      ASSERT_NE(step, nullptr) << shortage.what;
      write_all(*step, shape, fresh);
      expect_all_shown(*step);
    }
  }

  Shape shape;
  bool shows_rows;                  // else what the store keeps is bounded_test.cc's
  uint32_t most_held = UINT32_MAX;  // committed rows that a step shows
  std::unique_ptr<Store> store;
  std::map<SeqId, Rows> twin;
  std::vector<Slot> slots;  // of the last begin
  Rows fresh;               // its rows, in batch order
  Shortage shortage;        // of the last begin or append that failed
  Row next_row = 1;
};

}  // namespace kvick::kv::test
