#include "engine/prefix/prompt_cuts.h"

#include <gtest/gtest.h>

#include "engine/core/test_engine.h"

namespace kvick::engine {
namespace {

using Cuts = std::vector<uint32_t>;

// Messages of these lengths, each begun by `turn`.
std::vector<Token> messages(std::span<const uint32_t> lengths, Token turn) {
  std::vector<Token> prompt;
  for (const uint32_t length : lengths) {
    prompt.push_back(turn);
    prompt.resize(prompt.size() + length - 1, 9);
  }
  return prompt;
}

class PromptCuts : public testing::Test {
 protected:
  Cuts cuts(std::span<const Token> prompt, const KnownPrompt& known = {},
            std::optional<Token> turn = {}) const {
    return cuts_of(prompt, known, turn, engine_->tokenizer());
  }
  static const std::unique_ptr<Engine> engine_;
};
const std::unique_ptr<Engine> PromptCuts::engine_ = tiny_engine();

TEST_F(PromptCuts, AreWhereMessagesBegin) {
  const auto prompt = messages(Cuts{40, 30, 20, 3}, 11);
  EXPECT_EQ(cuts(prompt, {}, 11), (Cuts{40, 70, 90}));
  EXPECT_EQ(cuts(prompt, {.cached = 40}, 11), (Cuts{70, 90}));
  EXPECT_EQ(cuts(prompt, {.cached = 90, .seen = 92}, 11), Cuts());
}

TEST_F(PromptCuts, AreWhereTheLastControlTokenStandsIfMessagesBeginWithText) {
  constexpr Token kControl = 511;
  ASSERT_TRUE(engine_->tokenizer().is_control(kControl));
  const auto prompt = messages(Cuts{40, 30, 3}, kControl);
  EXPECT_EQ(cuts(prompt), (Cuts{40, 70}));
  EXPECT_EQ(cuts(prompt, {}, 12), (Cuts{40, 70})) << "not written by the template";
}

TEST_F(PromptCuts, AreAtPowersOfTwoAndAtTheEndOfOtherText) {
  const std::vector<Token> prompt(300, 9);
  EXPECT_EQ(cuts(prompt), (Cuts{64, 128, 256, 299}));
  EXPECT_EQ(cuts(prompt, {.cached = 100}), (Cuts{128, 256, 299}));
}

TEST_F(PromptCuts, AreWhereAnEarlierPromptWasLeft) {
  const auto prompt = messages(Cuts{40, 100, 3}, 11);
  EXPECT_EQ(cuts(prompt, {.cached = 40, .seen = 80}, 11), (Cuts{80, 140}));
  EXPECT_EQ(cuts(prompt, {.cached = 40, .seen = 50}, 11), (Cuts{140})) << "too near";
  EXPECT_EQ(cuts(prompt, {.cached = 0, .seen = 50}, 11), (Cuts{40, 140})) << "too near as well";
  EXPECT_EQ(cuts(prompt, {.cached = 0, .seen = 135}, 11), (Cuts{40, 135, 140}));
}

TEST_F(PromptCuts, AreNotNearerThanTheyAreWorth) {
  EXPECT_EQ(cuts(messages(Cuts{4, 4, 4, 4, 4, 4}, 11), {}, 11), Cuts{20});
  EXPECT_EQ(cuts(messages(Cuts{12}, 11), {}, 11), Cuts());
  EXPECT_EQ(cuts(std::vector<Token>{9}), Cuts());
  EXPECT_EQ(cuts({}), Cuts());
}

TEST_F(PromptCuts, AreFewHoweverManyMessagesThereAre) {
  const auto prompt = messages(Cuts(5000, 20), 11);
  const Cuts found = cuts(prompt, {}, 11);
  EXPECT_LE(found.size(), 20u);
  EXPECT_EQ(found.front(), 20u) << "the system's prompt";
  const auto end = static_cast<uint32_t>(prompt.size());
  EXPECT_EQ(Cuts(found.end() - 4, found.end()), (Cuts{end - 80, end - 60, end - 40, end - 20}));
  for (size_t i = 2; i < found.size(); ++i)
    EXPECT_GE(2 * (end - found[i]) + 40, end - found[i - 1]) << "at most half is read again";
}

}  // namespace
}  // namespace kvick::engine
