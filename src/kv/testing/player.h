#pragma once
// Random operations on a store beside a trivial model. Larger than 150 lines because it is the
// source of several tests.

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

#include "base/function_ref.h"
#include "kv/strategy/budget.h"
#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {

// KVICK_TEST_SEED repeats a run that failed.
inline uint32_t seed() {
  const char* given = std::getenv("KVICK_TEST_SEED");
  return given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                          : std::random_device{}();
}

class Player {
 public:
  Player(const Case& test, const Shape& shape, uint64_t cap, uint32_t seed)
      : traits_(kv::traits_of(*find_strategy(spec_of(test.spec).name), shape, {},
                              select_of(test.spec))),
        budget_(std::make_shared<Budget>(cap)),
        // What ends the memory is the store's own cap or the budget.
        pair_(test.spec, shape, seed % 2 == 0 ? cap : UINT64_MAX, budget_),
        cap_(cap),
        random_(seed) {
    const Policy* policy = find_policy(select_of(test.spec).name);
    has_policy_ = policy != nullptr;
    if (has_policy_ && has_option(*policy, "page")) selection_.unit = kTriedPage;
  }

  // `after` looks at what each operation left.
  void play(int operations, base::FunctionRef<void()> after = kNothing) {
    for (int i = 0; i < operations && !testing::Test::HasFatalFailure(); ++i) {
      const uint32_t dice = below(100);
      if (pair_.twin.empty() || dice < 8) {
        if (pair_.twin.size() < 6) pair_.open();
      } else if (dice < 16) {
        fork(any());
      } else if (dice < 24) {
        pair_.close(any());
      } else if (dice < 30 && traits_.moves_rows && pair_.store->facets().rows != nullptr) {
        move(any(), any());
      } else {
        step();
      }
      check();
      after();
    }
    while (!pair_.twin.empty()) pair_.close(any());
    EXPECT_EQ(pair_.store->usage().allocated_bytes, pair_.store->usage().cached_bytes);
  }

  int shortages() const { return shortages_; }
  const Pair& pair() const { return pair_; }
  // Fresh rows of a sequence's last step, or of the last one that was committed if they were more.
  uint32_t step_rows(SeqId seq) const {
    const auto rows = step_rows_.find(seq);
    return rows == step_rows_.end() ? 1 : std::max(rows->second.begun, rows->second.committed);
  }

 private:
  struct StepRows {
    uint32_t begun = 1, committed = 1;
  };
  static constexpr auto kNothing = [] {};

  uint32_t below(uint32_t n) { return std::uniform_int_distribution<uint32_t>(0, n - 1)(random_); }
  SeqId any() {
    return std::next(pair_.twin.begin(), below(static_cast<uint32_t>(pair_.twin.size())))->first;
  }

  void fork(SeqId seq) {
    if (pair_.twin.size() >= 6) return;
    const Usage before = pair_.store->usage();
    const auto forked = pair_.store->fork(seq);
    if (forked.ok()) {
      pair_.twin[*forked] = pair_.twin[seq];
    } else {
      failed(before, forked.error());
    }
  }

  // Some rows of one sequence become another's, or its own once more.
  void move(SeqId from, SeqId to) {
    const Rows& rows = pair_.twin[from];
    const uint32_t first = below(static_cast<uint32_t>(rows.size()) + 1);
    const uint32_t count = below(static_cast<uint32_t>(rows.size()) - first + 1);
    const Usage before = pair_.store->usage();
    const Rows moved(rows.begin() + first, rows.begin() + first + count);
    const std::vector<std::byte> bytes = pair_.read(from, first, count);
    if (!pair_.append(to, moved, bytes)) return failed(before, pair_.shortage);
    ASSERT_TRUE(pair_.read(to, pair_.store->length(to) - count, count) == bytes);
  }

  std::vector<Slot> slots() {
    std::vector<Slot> all;
    for (const auto& [seq, rows] : pair_.twin)
      if (below(2) == 0) all.push_back({seq, 1 + below(below(6) == 0 ? 120 : 5)});
    if (all.empty()) all.push_back({any(), 1});
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  Kept kept() {
    Kept kept = Kept::all({pair_.slots});
    const uint32_t kind = below(3);
    for (auto& rows : kept.rows) {
      if (kind == 1) rows.resize(below(static_cast<uint32_t>(rows.size()) + 1));       // a chain
      if (kind == 2) std::erase_if(rows, [this](uint32_t) { return below(2) == 0; });  // a tree
    }
    return kept;
  }

  void step() {
    const Usage before = pair_.store->usage();
    auto step = pair_.begin(slots());
    if (step == nullptr) return failed(before, pair_.shortage);
    for (const Slot& slot : pair_.slots) step_rows_[slot.seq].begun = slot.fresh;
    EXPECT_LE(pair_.store->usage().allocated_bytes, budget_->used());
    std::vector<uint32_t> layers = {0, 1};
    std::shuffle(layers.begin(), layers.end(), random_);
    const bool all = below(8) != 0;
    if (!all) layers.pop_back();
    for (const uint32_t layer : layers) write_layer(*step, pair_.shape, pair_.fresh, layer);
    EXPECT_LE(pair_.store->usage().allocated_bytes, budget_->used());
    if (!all) return;
    if (traits_.exact) pair_.expect_all_shown(*step);
    if (traits_.per_query && !traits_.forgets) expect_chosen_shown(*step);
    if (below(4) == 0) return;
    pair_.commit(*step, kept());
    for (const Slot& slot : pair_.slots) step_rows_[slot.seq].committed = slot.fresh;
  }

  void expect_chosen_shown(Step& step) {
    for (uint32_t s = 0; s < pair_.slots.size(); ++s)
      pair_.expect_some_shown(step, s, selection_.of(pair_.store->length(pair_.slots[s].seq)));
  }

  void failed(const Usage& before, const Shortage& shortage) {
    ++shortages_;
    EXPECT_GT(shortage.needed_bytes, shortage.available_bytes) << shortage.what;
    Usage after = pair_.store->usage();
    if (has_policy_) {  // cached rows may have given way to summaries for which rows had no room
      EXPECT_LE(after.cached_bytes, before.cached_bytes);
      after.allocated_bytes += before.cached_bytes - after.cached_bytes;
      after.cached_bytes = before.cached_bytes;
      EXPECT_LE(after.metadata_bytes, before.metadata_bytes);  // their entries went with them
      after.metadata_bytes = before.metadata_bytes;
    }
    EXPECT_EQ(after, before);
  }

  void check() {
    const Usage usage = pair_.store->usage();
    uint64_t used = 0;
    for (const auto& [seq, rows] : pair_.twin) {
      ASSERT_EQ(pair_.store->length(seq), rows.size());
      used += pair_.shape.used_bytes(static_cast<uint32_t>(pair_.held(seq).size()));
    }
    ASSERT_EQ(usage.sequences, pair_.twin.size());
    ASSERT_LE(usage.used_bytes + usage.cached_bytes, usage.allocated_bytes);
    ASSERT_EQ(usage.wasted_bytes, usage.allocated_bytes - usage.used_bytes - usage.cached_bytes);
    ASSERT_LE(usage.allocated_bytes, cap_);
    ASSERT_EQ(usage.allocated_bytes, budget_->used());
    uint64_t mapped = 0;
    for (const Piece& piece : map_of(*pair_.store)) {
      mapped += piece.bytes;
      ASSERT_LE(piece.used_tokens, piece.tokens);
      ASSERT_TRUE(piece.users == 0 || pair_.twin.contains(piece.owner));
    }
    ASSERT_EQ(mapped, usage.allocated_bytes);
    if (traits_.exact && !traits_.cheap_fork && !traits_.tiered) {
      ASSERT_EQ(usage.used_bytes, used);
    }
  }

  Traits traits_;
  std::shared_ptr<Budget> budget_;
  Pair pair_;
  uint64_t cap_;
  Selection selection_ = kTriedSelection;
  bool has_policy_ = false;
  std::mt19937 random_;
  int shortages_ = 0;
  std::map<SeqId, StepRows> step_rows_;
};

}  // namespace kvick::kv::test
