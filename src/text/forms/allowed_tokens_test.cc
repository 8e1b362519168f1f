#include "text/forms/allowed_tokens.h"

#include <cmath>
#include <gtest/gtest.h>

namespace kvick::text {
namespace {

TEST(AllowedTokens, AreTheOnlyOnesAtEveryStep) {
  const auto form = allowed_tokens({3, 1, 3}, 5)->clone();
  for (int step = 0; step < 2; ++step) {
    std::vector<float> logits = {9, 8, 7, 6, 5};
    form->mask(logits);
    EXPECT_EQ(logits, (std::vector<float>{-INFINITY, 8, -INFINITY, 6, -INFINITY})) << step;
    form->accept(3);
    EXPECT_TRUE(form->complete());
  }
}

}  // namespace
}  // namespace kvick::text
