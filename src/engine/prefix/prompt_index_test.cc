#include "engine/prefix/prompt_index.h"

#include <gtest/gtest.h>
#include <numeric>

namespace kvick::engine {
namespace {

constexpr uint32_t kPiece = PromptIndex::kPieceTokens;

std::vector<kv::Token> prompt_of(size_t tokens, kv::Token first = 0) {
  std::vector<kv::Token> prompt(tokens);
  std::iota(prompt.begin(), prompt.end(), first);
  return prompt;
}

TEST(PromptIndex, KnowsWhoWasGivenHowMuchOfAPrompt) {
  PromptIndex index(3);
  const auto prompt = prompt_of(4 * kPiece + 5);
  EXPECT_EQ(index.known("", prompt), (std::vector<uint32_t>{0, 0, 0}));
  index.add("", prompt, 2);
  index.add("", std::span(prompt).first(2 * kPiece), 0);
  EXPECT_EQ(index.known("", prompt), (std::vector<uint32_t>{2 * kPiece, 0, 4 * kPiece}));
  EXPECT_EQ(index.known("", prompt_of(kPiece)), (std::vector<uint32_t>{kPiece, 0, kPiece}));
  auto other = prompt;
  other[kPiece] = 99;
  EXPECT_EQ(index.known("", other), (std::vector<uint32_t>{kPiece, 0, kPiece}));
  EXPECT_EQ(index.known("", prompt_of(kPiece, 1)), (std::vector<uint32_t>{0, 0, 0}));
  EXPECT_EQ(index.known("", {}), (std::vector<uint32_t>{0, 0, 0}));
}

TEST(PromptIndex, KeepsSaltsApart) {
  PromptIndex index(1);
  index.add("a", prompt_of(kPiece), 0);
  EXPECT_EQ(index.known("a", prompt_of(kPiece)).front(), kPiece);
  EXPECT_EQ(index.known("b", prompt_of(kPiece)).front(), 0U);
}

TEST(PromptIndex, ForgetsWhatWasGivenLongestAgo) {
  PromptIndex index(1);
  const auto first = prompt_of(kPiece, -1), second = prompt_of(kPiece, -2);
  index.add("", first, 0);
  index.add("", second, 0);
  index.add("", first, 0);
  for (size_t i = 2; i < PromptIndex::kMostPieces + 1; ++i)
    index.add("", prompt_of(kPiece, static_cast<kv::Token>(i)), 0);
  EXPECT_EQ(index.known("", first).front(), kPiece);
  EXPECT_EQ(index.known("", second).front(), 0U);
}

}  // namespace
}  // namespace kvick::engine
