#include "kv/rows/candidates.h"

#include <gtest/gtest.h>

namespace kvick::kv {
namespace {

std::string refusal(const char* value) {
  const auto read = read_candidates({.name = "quest", .options = {{"candidates", value}}},
                                    candidates_option("many", "0"));
  return read.ok() ? "" : read.error().message;
}

TEST(Candidates, AreZeroOrAtLeastTheBudget) {
  EXPECT_EQ(refusal("0"), "");
  EXPECT_EQ(refusal("1"), "");
  EXPECT_EQ(refusal("1.5"), "");
  EXPECT_EQ(refusal("0.5"),
            "quest: candidates must be 0 (score all rows) or a multiple of the budget from 1 to "
            "1000");
  EXPECT_NE(refusal("1001"), "");
  EXPECT_NE(refusal("-1"), "");
  EXPECT_NE(refusal("x"), "");
}

TEST(Candidates, HaveRoomForWhatIsTaken) {
  for (const uint64_t factor : {1000000ULL, 1500000ULL, 4000000ULL})
    for (const uint32_t take : {1u, 15u, 16u, 17u, 1000u}) {
      const uint32_t pages = Candidates{factor}.pages(take, 16, 1000);
      // Even if the first page and the last have one row each.
      EXPECT_GE((pages - 2) * 16 + 2, take);
      EXPECT_EQ(pages, (take * factor + 15999999) / 16000000 + 2);
      EXPECT_EQ(Candidates{factor}.pages(take, 16, 3), std::min(3u, pages));
    }
}

TEST(Candidates, RangesOfPagesJoinAndKeepToTheirBounds) {
  base::Arena scratch;
  const uint32_t pages[] = {0, 1, 3, 6};
  const auto ranges = rows_of_pages(pages, 4, {3, 26}, scratch);
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[0].begin, 3u);
  EXPECT_EQ(ranges[0].end, 8u);
  EXPECT_EQ(ranges[1].begin, 12u);
  EXPECT_EQ(ranges[1].end, 16u);
  EXPECT_EQ(ranges[2].begin, 24u);
  EXPECT_EQ(ranges[2].end, 26u);
  EXPECT_EQ(count_rows(ranges), 11u);
  uint32_t rows[] = {0, 4, 5, 8, 9, 10};
  to_rows(ranges, rows);
  const uint32_t expected[] = {3, 7, 12, 15, 24, 25};
  for (size_t i = 0; i < std::size(rows); ++i) EXPECT_EQ(rows[i], expected[i]);
}

}  // namespace
}  // namespace kvick::kv
