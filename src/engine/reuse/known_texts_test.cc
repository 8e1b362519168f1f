#include "engine/reuse/known_texts.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

namespace kvick::engine {
namespace {

constexpr uint32_t kLeast = 12;

std::vector<Token> random_text(size_t tokens, std::mt19937& random) {
  std::vector<Token> text(tokens);
  for (Token& token : text) token = static_cast<Token>(random() % 1000);
  return text;
}

void append(std::vector<Token>& to, std::span<const Token> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Checks that runs are disjoint, in order, within bounds, long enough and equal to the prompt.
void expect_sound(std::span<const KnownRun> runs, std::span<const Token> prompt, uint32_t first,
                  uint32_t end) {
  uint32_t free = first;
  for (const KnownRun& run : runs) {
    ASSERT_GE(run.at, free);
    ASSERT_LE(run.at + run.count, end);
    ASSERT_GE(run.count, kLeast);
    ASSERT_LE(run.from + run.count, run.text->size());
    EXPECT_TRUE(std::equal(prompt.begin() + run.at, prompt.begin() + run.at + run.count,
                           run.text->begin() + run.from));
    free = run.at + run.count;
  }
}

TEST(KnownTexts, FindWhatWasPlantedWhereverItBegins) {
  std::mt19937 random(1);
  for (uint32_t round = 0; round < 50; ++round) {
    KnownTexts known(kLeast, 100'000);
    std::vector<std::vector<Token>> texts;
    for (uint32_t i = 0; i < 4; ++i) {
      texts.push_back(random_text(40 + random() % 200, random));
      known.add(0, texts.back());
    }
    std::vector<Token> prompt = random_text(3 + random() % 20, random);
    const auto first = static_cast<uint32_t>(prompt.size());
    struct Planted {
      uint32_t at, count;
    };
    std::vector<Planted> planted;
    for (const std::vector<Token>& text : texts) {
      const uint32_t count = kLeast + random() % 20, from = random() % (text.size() - count);
      planted.push_back({static_cast<uint32_t>(prompt.size()), count});
      append(prompt, std::span(text).subspan(from, count));
      append(prompt, random_text(1 + random() % 9, random));
    }
    const auto end = static_cast<uint32_t>(prompt.size());
    const std::vector<KnownRun> runs = known.runs(0, prompt, first, end);
    expect_sound(runs, prompt, first, end);
    ASSERT_EQ(runs.size(), planted.size());
    for (size_t i = 0; i < runs.size(); ++i) {  // neighbouring tokens may be equal by chance
      EXPECT_LE(runs[i].at, planted[i].at);
      EXPECT_GE(runs[i].at + runs[i].count, planted[i].at + planted[i].count);
    }
  }
}

TEST(KnownTexts, AreSoundForTextsThatRepeatThemselves) {
  std::mt19937 random(2);
  KnownTexts known(kLeast, 100'000);
  std::vector<Token> text(300);
  for (Token& token : text) token = static_cast<Token>(random() % 2);
  known.add(0, text);
  known.add(0, std::vector<Token>(100, 7));
  for (uint32_t round = 0; round < 30; ++round) {
    std::vector<Token> prompt(200, round % 3 == 0 ? 7 : 0);
    if (round % 3 != 0)
      for (Token& token : prompt) token = static_cast<Token>(random() % 2);
    const uint32_t first = random() % 50, end = first + random() % 150;
    expect_sound(known.runs(0, prompt, first, end), prompt, first, end);
  }
}

TEST(KnownTexts, AreTheirOwnersAlone) {
  std::mt19937 random(3);
  const std::vector<Token> text = random_text(50, random);
  KnownTexts known(kLeast, 1000);
  known.add(1, text);
  EXPECT_EQ(known.runs(1, text, 0, 50).size(), 1U);
  EXPECT_TRUE(known.runs(0, text, 0, 50).empty());
  EXPECT_TRUE(known.runs(2, text, 0, 50).empty());
}

TEST(KnownTexts, GoOldestFirstWhereThereAreTooMany) {
  std::mt19937 random(4);
  KnownTexts known(kLeast, 100);
  std::vector<std::vector<Token>> texts;
  for (uint32_t i = 0; i < 5; ++i) {
    texts.push_back(random_text(40, random));
    known.add(0, texts.back());
  }
  for (uint32_t i = 0; i < 5; ++i)
    EXPECT_EQ(known.runs(0, texts[i], 0, 40).size(), i < 3 ? 0U : 1U);
  known.add(0, random_text(101, random));  // longer than all texts together may be
  EXPECT_EQ(known.runs(0, texts[4], 0, 40).size(), 1U);
}

TEST(KnownTexts, PreferTheNewestOfTwoThatAreAlike) {
  std::mt19937 random(5);
  const std::vector<Token> text = random_text(60, random);
  std::vector<Token> later = random_text(5, random);
  append(later, text);
  KnownTexts known(kLeast, 1000);
  known.add(0, text);
  known.add(0, later);
  const std::vector<KnownRun> runs = known.runs(0, std::span(text).first(59), 0, 59);
  ASSERT_FALSE(runs.empty());
  expect_sound(runs, text, 0, 59);
}

}  // namespace
}  // namespace kvick::engine
