#include "engine/sampling/dry.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "engine/sampling/sampler.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::engine {
namespace {

constexpr size_t kVocab = 8;

// The definition in dry.h. breaks: tokens up to the end of the last breaker.
std::vector<float> naive(const DrySampling& s, const std::vector<Token>& all, size_t breaks,
                         std::vector<float> logits) {
  const size_t n = std::min<size_t>(all.size(), s.window);
  const std::vector<Token> text(all.end() - static_cast<ptrdiff_t>(n), all.end());
  std::vector<uint32_t> longest(kVocab, 0);
  for (size_t end = 1; end < n; ++end) {  // where the earlier occurrence ends
    uint32_t length = 0;
    while (length < end && length < all.size() - breaks &&
           text[end - 1 - length] == text[n - 1 - length])
      ++length;
    uint32_t& best = longest[static_cast<size_t>(text[end])];
    best = std::max(best, length);
  }
  for (size_t token = 0; token < kVocab; ++token)
    if (longest[token] >= s.allowed_length)
      logits[token] -= static_cast<float>(
          double{s.multiplier} * std::pow(double{s.base}, longest[token] - s.allowed_length));
  return logits;
}

TEST(Dry, PenalisesWhatWouldGoOnARepetition) {
  Dry dry({.multiplier = 0.5F, .base = 2, .allowed_length = 2}, nullptr);
  for (const Token token : {1, 2, 3, 4, 1, 2, 3}) dry.add(token);
  std::vector<float> logits(kVocab, 0);
  dry.apply(logits);
  EXPECT_FLOAT_EQ(logits[4], -0.5F * 2);  // follows 1 2 3, one token longer than allowed
  EXPECT_FLOAT_EQ(logits[1] + logits[2] + logits[3], 0);
}

TEST(Dry, PenalisesAsItsDefinition) {
  std::mt19937 random(7);
  size_t penalised = 0;
  for (int round = 0; round < 300; ++round) {
    DrySampling settings = {.multiplier = 0.75F, .base = 1.5F};
    settings.allowed_length = static_cast<uint32_t>(1 + random() % 3);
    if (round % 3 > 0) settings.window = static_cast<uint32_t>(2 + random() % 30);
    Dry dry(settings, nullptr);
    std::vector<Token> text;
    size_t breaks = 0;
    const uint32_t kinds = 1 + random() % 4;
    for (uint32_t n = random() % 120; n > 0; --n) {
      text.push_back(static_cast<Token>(random() % kinds));
      dry.add(text.back());
      std::vector<float> logits(kVocab, 1);
      const std::vector<float> expected = naive(settings, text, breaks, logits);
      dry.apply(logits);
      ASSERT_EQ(logits, expected) << round;
      penalised += logits != std::vector<float>(kVocab, 1);
    }
  }
  EXPECT_GT(penalised, 1000u);
}

TEST(Dry, GoesPastNoBreakerWhicheverTokensItIsWrittenIn) {
  const auto tokenizer = text::make(text::byte_vocabulary({}));
  const DrySampling settings = {.multiplier = 1, .allowed_length = 2, .breakers = {"\n", "--"}};
  const auto taken = [&](std::string_view text, char next) {
    Dry dry(settings, tokenizer.get());
    for (const char c : text) dry.add(static_cast<Token>(static_cast<unsigned char>(c)));
    std::vector<float> logits(256, 0);
    dry.apply(logits);
    return -logits[static_cast<size_t>(next)];
  };
  EXPECT_FLOAT_EQ(taken("abcd.abc", 'd'), 1.75F);
  EXPECT_FLOAT_EQ(taken("a\nbcd.a\nbc", 'd'), 1);  // not past the end of the line: 2 tokens repeat
  EXPECT_FLOAT_EQ(taken("ab\ncd.ab\nc", 'd'), 0);
  EXPECT_FLOAT_EQ(taken("a-bcd.a-bc", 'd'), 1.75F * 1.75F);
  EXPECT_FLOAT_EQ(taken("a--bcd.a--bc", 'd'), 1);  // the breaker has two tokens
  EXPECT_FLOAT_EQ(taken("abc\n.abc", '\n'), 0);    // a breaker is never penalised
}

TEST(Dry, TakesControlTokensForBreakers) {
  auto vocabulary = text::byte_vocabulary({});
  text::add_piece(vocabulary, "<end>", text::TokenKind::kControl);
  const auto tokenizer = text::make(std::move(vocabulary));
  Dry dry({.multiplier = 1, .allowed_length = 2}, tokenizer.get());
  for (const Token token : {7, 256, 8, 9, 256, 7, 256, 8, 9}) dry.add(token);
  std::vector<float> logits(257, 0);
  dry.apply(logits);
  EXPECT_EQ(logits, std::vector<float>(257, 0));  // 256 followed 8 9, but is a control token
  dry.add(10), dry.add(8), dry.add(9);
  dry.apply(logits);
  EXPECT_FLOAT_EQ(logits[10], -1);
}

TEST(Dry, IsPartOfASampler) {
  Sampling s;
  s.temperature = 0;
  s.dry = {.multiplier = 3, .allowed_length = 2};
  Sampler sampler(s, kernels::table(base::best_isa()));
  for (const Token token : {1, 2, 3}) sampler.accept_prompt(token);
  for (const Token token : {1, 2}) sampler.accept(token);
  std::vector<float> logits = {0, 0, 0, 2, 1};
  EXPECT_EQ(sampler.choose(logits), 4);
  sampler.accept_break();
  logits = {0, 0, 0, 2, 1};
  EXPECT_EQ(sampler.choose(logits), 3);
}

}  // namespace
}  // namespace kvick::engine
