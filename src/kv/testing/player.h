#pragma once
// Plays random operations on a store beside a reference model.

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

#include "base/function_ref.h"
#include "kv/strategy/budget.h"
#include "kv/testing/cases.h"
#include "kv/testing/store_and_twin.h"

namespace kvick::kv::test {

// The environment variable KVICK_TEST_SEED repeats a run that failed.
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
        // Either the store's own cap or the budget limits memory.
        pair_(test.spec, shape, seed % 2 == 0 ? cap : UINT64_MAX, budget_),
        cap_(cap),
        random_(seed) {}

  // Calls `after` after each operation.
  void play(int operations, base::FunctionRef<void()> after = kNothing);

  int shortages() const { return shortages_; }
  const Pair& pair() const { return pair_; }
  // Returns the fresh rows of a sequence's last step, or of its last committed step if that had
  // more.
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

  void fork(SeqId seq);
  // Appends some rows of one sequence to another one, or to itself.
  void move(SeqId from, SeqId to);
  std::vector<Slot> slots();
  Kept kept();
  void step();
  void failed(const Usage& before, const Shortage& shortage);
  void check();

  Traits traits_;
  std::shared_ptr<Budget> budget_;
  Pair pair_;
  uint64_t cap_;
  std::mt19937 random_;
  int shortages_ = 0;
  std::map<SeqId, StepRows> step_rows_;
};

}  // namespace kvick::kv::test
