#include "engine/reuse/reuse_options.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

TEST(ReuseOptions, AreReadOrRefusedInOneSentence) {
  EXPECT_FALSE(parse_reuse_options("exact")->shift);
  const ReuseOptions plain = *parse_reuse_options("shift");
  EXPECT_TRUE(plain.shift);
  EXPECT_EQ(plain.least, ReuseOptions().least);
  EXPECT_EQ(plain.seam, ReuseOptions().seam);
  const ReuseOptions all = *parse_reuse_options("shift:least=100,seam=0");
  EXPECT_EQ(all.least, 100U);
  EXPECT_EQ(all.seam, 0U);
  const auto error = [](const char* text) { return parse_reuse_options(text).error().message; };
  EXPECT_EQ(error("all"), "'all' is neither exact nor shift[:least=N,seam=N]");
  EXPECT_EQ(error("shift:least=20,seam=20"),
            "shift: seam=20 leaves nothing of least=20: it has to be smaller");
  EXPECT_TRUE(error("shift:least=x").starts_with("shift: least='x' is not a whole number"));
  EXPECT_EQ(error("shift:most=1"), "shift has no option 'most'; it has least, seam");
}

}  // namespace
}  // namespace kvick::engine
