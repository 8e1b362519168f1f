#include "kernels/attention/attention_rows.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <vector>

namespace kvick::kernels {
namespace {

constexpr uint32_t kLine = 64;

size_t line_of(const std::byte* p) { return reinterpret_cast<size_t>(p) / kLine; }

std::multiset<size_t> asked(const StripList& list) {
  std::multiset<size_t> lines;
  for (uint32_t s = 0; s < list.count; ++s)
    for (uint32_t i = 0; i < list.strips[s].lines; ++i)
      lines.insert(line_of(list.strips[s].at + size_t{i} * list.strips[s].step));
  return lines;
}

TEST(StripList, AsksForEachLineOfRowsInOnePieceOnce) {
  std::mt19937 random(1);
  for (int turn = 0; turn < 500; ++turn) {
    const uint32_t bytes = 1 + random() % 600, rows = 1 + random() % 40;
    const size_t offset = random() % 200;
    const std::vector<std::byte> memory(offset + size_t{bytes} * rows);
    const std::byte* const first = memory.data() + offset;
    StripList list;
    list.append(first, bytes, bytes, rows);
    std::multiset<size_t> expected;
    for (size_t line = line_of(first); line <= line_of(first + size_t{bytes} * rows - 1); ++line)
      expected.insert(line);
    ASSERT_EQ(asked(list), expected) << bytes << " bytes, " << rows << " rows at " << offset;
    ASSERT_EQ(list.lines, expected.size());
  }
}

// It must not ask for lines between the rows.
TEST(StripList, AsksForTheLinesOfRowsThatLieApart) {
  std::mt19937 random(2);
  for (int turn = 0; turn < 500; ++turn) {
    const uint32_t lines = 1 + random() % 8, rows = 1 + random() % 40;
    const uint32_t bytes = lines * kLine, stride = bytes + (1 + random() % 4) * kLine;
    const std::vector<std::byte> memory(size_t{stride} * rows + kLine);
    const std::byte* const first =
        memory.data() + (kLine - reinterpret_cast<size_t>(memory.data()) % kLine);
    StripList list;
    list.append(first, bytes, stride, rows);
    std::multiset<size_t> expected;
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t line = 0; line < lines; ++line)
        expected.insert(line_of(first + size_t{row} * stride + line * kLine));
    ASSERT_EQ(asked(list), expected) << lines << " lines, " << rows << " rows, " << stride;
  }
}

TEST(StripList, LeavesOutWhatItHasNoRoomFor) {
  const std::vector<std::byte> memory(64 * 1024);
  StripList list;
  for (uint32_t i = 0; i < 2 * StripList::kMost; ++i)
    list.append(memory.data() + size_t{i} * 256, 64, 64, 1);
  EXPECT_EQ(list.count, StripList::kMost);
  EXPECT_EQ(list.lines, asked(list).size());
}

std::vector<Run> random_runs(std::mt19937& random, uint32_t rows) {
  std::vector<Run> runs;
  for (uint32_t row = random() % 3; row < rows; row += 1 + random() % 5) {
    const uint32_t n = std::min(1 + static_cast<uint32_t>(random() % 4), rows - row);
    runs.push_back({.row = row, .rows = n, .pos = row});
    row += n;
  }
  return runs;
}

TEST(StripList, AsksForManyRunsAsForOneAfterTheOther) {
  std::mt19937 random(3);
  for (int turn = 0; turn < 200; ++turn) {
    const uint32_t bytes = 8 * (1 + static_cast<uint32_t>(random() % 40));
    const uint32_t stride = turn % 2 == 0 ? bytes : 2 * bytes;
    const std::vector<std::byte> memory(size_t{stride} * 600);
    const auto runs = random_runs(random, 600);
    StripList together, alone;
    together.append_runs(memory.data(), bytes, stride, runs);
    for (const auto& run : runs)
      alone.append(memory.data() + size_t{run.row} * stride, bytes, stride, run.rows);
    ASSERT_EQ(asked(together), asked(alone)) << bytes << " bytes, " << stride;
    ASSERT_EQ(together.lines, alone.lines);
  }
}

TEST(ChunkRows, TakesManyRunsAsOneAfterTheOther) {
  std::mt19937 random(4);
  const std::vector<std::byte> memory(64 * 1024);
  const std::vector<float> row_bias(kChunkRows, 0.5F);
  for (int turn = 0; turn < 20; ++turn) {
    Segment segment;
    segment.k = memory.data();
    segment.v = memory.data() + 32 * 1024;
    segment.k_stride = segment.v_stride = 64;
    if (turn % 2 == 0) segment.row_bias = row_bias.data();
    const auto runs = random_runs(random, kChunkRows);
    ChunkRows together, alone;
    together.append_runs(segment, runs);
    for (const auto& run : runs) alone.append(segment, run.row, run.rows);
    ASSERT_EQ(together.rows, alone.rows);
    ASSERT_EQ(together.span_count, 1U);
    ASSERT_EQ(together.spans[0].end, together.rows);
    for (uint32_t i = 0; i < alone.rows; ++i) {
      ASSERT_EQ(together.k[i], alone.k[i]) << i;
      ASSERT_EQ(together.v[i], alone.v[i]) << i;
      ASSERT_EQ(together.bias[i], alone.bias[i]) << i;
    }
  }
}

// The frames of a tier store each value behind its key.
TEST(NextRows, AsksForPairsOfKeyAndValueInOrder) {
  const std::vector<std::byte> memory(128 * 1024);
  Segment segment;
  segment.k = memory.data();
  segment.v = memory.data() + 136;
  segment.k_stride = segment.v_stride = 272;
  segment.k_type = segment.v_type = DType::kQ8;  // 128 codes and 4 scales
  NextRows next;
  next.append(segment, 16, 32, 128, 128);
  EXPECT_EQ(next.rows, 32U);
  ASSERT_EQ(next.k.count, 1U);
  EXPECT_EQ(next.v.count, 0U);
  EXPECT_EQ(next.k.strips[0].at, memory.data() + size_t{16} * 272);
  EXPECT_EQ(next.k.strips[0].step, kLine);
}

}  // namespace
}  // namespace kvick::kernels
