// Compares heads that share blocks of rows with plain lists of rows.

#include "kv/rows/row_pool.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace kvick::kv {
namespace {

constexpr Shape kShape = {.layers = 3,
                          .kv_heads = 4,
                          .head_dim = 2,
                          .max_tokens = 1000,
                          .k_type = kernels::DType::kF32,
                          .v_type = kernels::DType::kF32};
constexpr uint32_t kHeads = 12;

TEST(RowPool, KnowsTheRowsOfTheGroupThatHoldsMost) {
  constexpr uint32_t kTogether = 4;
  RowPool pool(kShape, kTogether, RowPool::blocks_of(kTogether, 20));
  EXPECT_EQ(RowPool().most_of_group(), 0U);
  EXPECT_EQ(pool.most_of_group(), 0U);
  pool.resize(1, 30);  // group 0
  pool.resize(4, 11);  // group 1
  pool.resize(7, 23);
  pool.resize(8, 33);  // group 2
  EXPECT_EQ(pool.most_of_group(), 34U);
}

TEST(RowPool, GivesTheSameRoomHoweverItIsDivided) {
  constexpr uint32_t kTogether = 4, kRows = 70;
  RowPool pool(kShape, kTogether, RowPool::blocks_of(kTogether, kRows));
  std::mt19937 random(1);
  std::vector<std::vector<float>> twins(kHeads);  // first element of each row's key
  float next = 0;
  for (int turn = 0; turn < 200; ++turn) {
    for (uint32_t group = 0; group < kHeads; group += kTogether) {
      // Divides kTogether * kRows rows at random among the four heads; heads that shrink go first.
      std::vector<uint32_t> rows(kTogether);
      for (uint32_t left = kTogether * kRows; left > 0; --left) {
        const uint32_t one = random() % 7 < 4 ? 0 : random() % kTogether;
        ++rows[(one + static_cast<uint32_t>(turn)) % kTogether];
      }
      for (const bool grows : {false, true})
        for (uint32_t i = 0; i < kTogether; ++i) {
          const uint32_t head = group + i;
          if (grows != (rows[i] > pool.held(head))) continue;
          pool.resize(head, rows[i]);
          const size_t had = std::min<size_t>(twins[head].size(), rows[i]);
          twins[head].resize(rows[i]);
          for (size_t row = had; row < rows[i]; ++row) {
            const float values[2] = {next, -next};
            for (const bool is_v : {false, true})
              std::memcpy(pool.row(head, is_v, static_cast<uint32_t>(row)), values, sizeof values);
            pool.note(head, static_cast<uint32_t>(row)) = {.pos = static_cast<uint32_t>(row),
                                                           .mass = next};
            twins[head][row] = next++;
          }
        }
    }
    EXPECT_EQ(pool.held_of_all(), uint64_t{kHeads} * kRows);
    base::Arena scratch;
    for (uint32_t head = 0; head < kHeads; ++head) {
      const uint32_t held = pool.held(head), first = held / 3;
      uint32_t at = first, pos = 50;
      for (const kernels::Run& run : pool.runs(head, first, held, 50, scratch)) {
        EXPECT_EQ(run.pos, pos);
        for (uint32_t i = 0; i < run.rows; ++i, ++at, ++pos) {
          float key = 0, value = 0;
          std::memcpy(&key, pool.base(false) + (run.row + i) * kShape.row_bytes(false), sizeof key);
          std::memcpy(&value, pool.base(true) + (run.row + i) * kShape.row_bytes(true),
                      sizeof value);
          ASSERT_EQ(key, twins[head][at]);
          ASSERT_EQ(value, key);
          ASSERT_EQ(pool.note(head, at).mass, key);
        }
      }
      EXPECT_EQ(at, held);
    }
  }
}

TEST(RowPool, AHeadWithAGroupForItselfHasOneRun) {
  RowPool pool(kShape, 1, RowPool::blocks_of(1, 100));
  EXPECT_EQ(pool.blocks(), 4u);
  pool.resize(5, 20);
  pool.resize(5, 100);
  base::Arena scratch;
  const auto runs = pool.runs(5, 0, 100, 0, scratch);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].rows, 100u);
  EXPECT_THROW(pool.resize(5, 129), base::Bug);
}

TEST(RowPool, ALargerOneTakesAllRows) {
  constexpr uint32_t kWindow = 3;
  RowPool small(kShape, 4, RowPool::blocks_of(4, 40), kWindow);
  RowPool large(kShape, 4, RowPool::blocks_of(4, 90), kWindow);
  for (uint32_t head = 0; head < kHeads; ++head) {
    small.resize(head, 30 + head % 4 * 4);
    for (uint32_t row = 0; row < small.held(head); ++row) {
      const float values[2] = {static_cast<float>(head), static_cast<float>(row)};
      for (const bool is_v : {false, true})
        std::memcpy(small.row(head, is_v, row), values, sizeof values);
      small.note(head, row) = {.pos = row, .mass = 1};
      for (uint32_t i = 0; i < kWindow; ++i)
        small.history(head, row)[i] = static_cast<float>(head * 1000 + row * kWindow + i);
    }
  }
  large.take(small);
  for (uint32_t head = 0; head < kHeads; ++head) {
    ASSERT_EQ(large.held(head), small.held(head));
    for (uint32_t row = 0; row < small.held(head); ++row) {
      for (const bool is_v : {false, true})
        EXPECT_EQ(std::memcmp(small.row(head, is_v, row), large.row(head, is_v, row), 8), 0);
      EXPECT_EQ(large.note(head, row).pos, row);
      ASSERT_EQ(large.history(head, row).size(), kWindow);
      for (uint32_t i = 0; i < kWindow; ++i)
        EXPECT_EQ(large.history(head, row)[i], static_cast<float>(head * 1000 + row * kWindow + i));
    }
  }
  EXPECT_EQ(large.bytes(), RowPool::bytes_of(kShape, 4, large.blocks(), kWindow));
  EXPECT_EQ(large.bytes() - RowPool::bytes_of(kShape, 4, large.blocks()),
            3 * large.blocks() * RowPool::kBlockRows * kWindow * sizeof(float));
  EXPECT_EQ(RowPool().bytes(), 0u);
}

}  // namespace
}  // namespace kvick::kv
