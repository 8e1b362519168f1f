#include "text/forms/behind_thoughts.h"

#include <cmath>
#include <gtest/gtest.h>

#include "text/forms/allowed_tokens.h"

namespace kvick::text {
namespace {

constexpr int32_t kEnd = 0, kMark = 1, kSpaces = 2, kAnswer = 3, kTokens = 5;

// Returns the tokens that may come next.
std::vector<int32_t> next(Constraint& form) {
  std::vector<float> logits(kTokens, 1.0F);
  form.mask(logits);
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < kTokens; ++token)
    if (!std::isinf(logits[static_cast<size_t>(token)])) tokens.push_back(token);
  return tokens;
}

std::unique_ptr<Constraint> form_with(std::optional<int32_t> spaces) {
  return behind_thoughts(allowed_tokens({kAnswer}, kTokens),
                         {.mark = kMark, .spaces = spaces, .ends = {kEnd}})
      ->clone();
}

using Tokens = std::vector<int32_t>;

TEST(BehindThoughts, LeavesThoughtsFreeAndHoldsTheAnswerToItsForm) {
  const auto form = form_with(std::nullopt);
  EXPECT_EQ(next(*form), (Tokens{kMark, kSpaces, kAnswer, 4}));  // no end
  form->accept(4);
  form->accept(kAnswer);
  EXPECT_EQ(next(*form), (Tokens{kMark, kSpaces, kAnswer, 4}));
  EXPECT_FALSE(form->complete());
  form->accept(kMark);
  EXPECT_EQ(next(*form), Tokens{kAnswer});
  EXPECT_FALSE(form->complete());
  form->accept(kAnswer);
  EXPECT_EQ(next(*form), Tokens{kAnswer});
  EXPECT_TRUE(form->complete());
}

TEST(BehindThoughts, AllowsWhiteSpaceOnceBehindTheMark) {
  const auto form = form_with(kSpaces);
  form->accept(kMark);
  EXPECT_EQ(next(*form), (Tokens{kSpaces, kAnswer}));
  const auto spaced = form->clone();
  spaced->accept(kSpaces);
  EXPECT_EQ(next(*spaced), Tokens{kAnswer});
  form->accept(kAnswer);
  EXPECT_EQ(next(*form), Tokens{kAnswer});
}

}  // namespace
}  // namespace kvick::text
