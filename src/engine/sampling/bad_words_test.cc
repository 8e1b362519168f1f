#include "engine/sampling/bad_words.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

#include "engine/sampling/sampler.h"
#include "text/tokenizer/test_vocabulary.h"

namespace kvick::engine {
namespace {

TEST(BadWords, ForbidTheirLastTokenBehindTheOthers) {
  std::mt19937 random(2);
  const std::vector<std::vector<Token>> words = {{5}, {1, 2}, {2, 2, 3}, {1, 2, 3, 4}};
  BadWords bad(words);
  std::vector<Token> text;
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> logits(6, 1);
    bad.apply(logits);
    for (Token token = 0; token < 6; ++token) {
      std::vector<Token> with = text;
      with.push_back(token);
      bool forbidden = false;
      for (const auto& word : words)
        forbidden |=
            with.size() >= word.size() && std::equal(word.rbegin(), word.rend(), with.rbegin());
      ASSERT_EQ(std::isinf(logits[static_cast<size_t>(token)]), forbidden) << i;
    }
    text.push_back(static_cast<Token>(1 + random() % 4));
    bad.add(text.back());
  }
}

TEST(BadWords, AreWordsWithAndWithoutASpace) {
  auto v = text::byte_vocabulary({"\u0120 a", "a b"});  // 256 is " a", 257 "ab"
  const auto tokenizer = text::make(std::move(v));
  using Words = std::vector<std::vector<Token>>;
  EXPECT_EQ(bad_word_tokens(*tokenizer, {"ab"}), (Words{{257}, {256, 'b'}}));
  EXPECT_EQ(bad_word_tokens(*tokenizer, {" ab", "ab"}), (Words{{257}, {256, 'b'}}));
  EXPECT_EQ(bad_word_tokens(*tokenizer, {}), Words());
}

TEST(BadWords, CountTheAnswerOnly) {
  Sampling s;
  s.temperature = 0;
  s.bad_words = {{1, 2}};
  Sampler sampler(s, kernels::table(base::best_isa()));
  sampler.accept_prompt(1);
  std::vector<float> logits = {0, 1, 2};
  EXPECT_EQ(sampler.choose(logits), 2);
  sampler.accept(1);
  logits = {0, 1, 2};
  EXPECT_EQ(sampler.choose(logits), 1);
}

}  // namespace
}  // namespace kvick::engine
