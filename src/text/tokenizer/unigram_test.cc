#include "text/tokenizer/unigram.h"

#include <gtest/gtest.h>
#include <map>
#include <random>

#include "text/tokenizer/test_vocabulary.h"

namespace kvick::text {
namespace {

// Builds a double array with room for all children of each node.
std::string charsmap_of(const std::map<std::string, std::string>& rules) {
  std::map<std::string, uint32_t> nodes = {{"", 0}};  // unit of each node, by its path
  std::vector<uint32_t> units(256);
  const auto add = [&](const std::string& path, bool entry, uint32_t value) {
    const uint32_t node = nodes.at(path), base = static_cast<uint32_t>(units.size());
    units.resize(base + 256);
    units[node] |= (node ^ base) << 10 | (entry ? 1U << 8 : 0);
    if (entry) units[base] = value | 1U << 31;
    for (const auto& [from, to] : rules)
      if (from.size() > path.size() && from.starts_with(path)) {
        const auto byte = static_cast<uint8_t>(from[path.size()]);
        nodes[from.substr(0, path.size() + 1)] = base + byte;
        units[base + byte] |= byte;
      }
  };
  std::string texts;
  std::map<std::string, uint32_t> values;
  for (const auto& [from, to] : rules) {
    values[from] = static_cast<uint32_t>(texts.size());
    texts += to + '\0';
  }
  for (auto at = nodes.begin(); at != nodes.end(); ++at)  // prefixes come before longer paths
    add(at->first, values.contains(at->first), values[at->first]);
  const auto bytes = static_cast<uint32_t>(units.size() * 4);
  std::string out(reinterpret_cast<const char*>(&bytes), 4);
  return out + std::string(reinterpret_cast<const char*>(units.data()), bytes) + texts;
}

const std::map<std::string, std::string> kRules = {
    {"ﬁ", "fi"}, {"\u3000", " "}, {"\t", " "}, {"Ä", "AE"}};

const std::vector<std::pair<std::string, float>> kPieces = {
    {"▁", -2},  {"▁the", -2.5F}, {"▁cat", -3},  {"c", -5},    {"a", -4},
    {"t", -4},  {"at", -3.5F},   {"s", -4.5F},  {"▁s", -4},   {"fi", -4.2F},
    {"AE", -5}, {"th", -4.1F},   {"e", -4.6F},  {"h", -6},    {"i", -5.5F},
    {"f", -6},  {"A", -6.5F},    {"▁a", -3.9F}, {"he", -4.8F}};

Vocabulary unigram() {
  Vocabulary v = sentence_vocabulary(kPieces, false);
  v.model = "t5";
  v.charsmap = charsmap_of(kRules);
  return v;
}

// The expected tokens are those of SentencePiece 0.2.3 with the same vocabulary and rules.
TEST(Unigram, IsWhatSentencePieceGives) {
  struct Case {
    const char* text;
    std::vector<Token> tokens;
  };
  const Case cases[] = {{"the cat", {4, 5}},
                        {"thecat sat", {4, 6, 9, 11, 9}},
                        {" the  the ", {4, 4}},
                        {"ﬁ Ä", {3, 12, 3, 13}},
                        {"\u3000cat\tcat", {5, 5}},
                        {"xyz cat", {3, 0, 5}},
                        {"x", {3, 0}},
                        {"", {}},
                        {"   ", {}},
                        {"ha世界the", {3, 16, 7, 0, 14, 15}},
                        {"atatath", {3, 9, 9, 7, 14}}};
  const auto tokenizer = make(unigram());
  for (const Case& one : cases)
    EXPECT_EQ(tokenizer->encode(one.text, false, false), one.tokens) << one.text;
}

// The definition: the best of all ways to split the text; a character that is not a piece is
// unknown.
double best_score(const std::map<std::string, double>& scores, const std::string& text) {
  if (text.empty()) return 0;
  const size_t character = decode_utf8(text).bytes;
  double best = -1e300;
  for (size_t n = 1; n <= text.size(); ++n) {
    const auto found = scores.find(text.substr(0, n));
    if (found != scores.end())
      best = std::max(best, found->second + best_score(scores, text.substr(n)));
  }
  if (!scores.contains(text.substr(0, character)))
    best = std::max(best, -16.5 + best_score(scores, text.substr(character)));
  return best;
}

TEST(Unigram, FindsTheBestOfAllCuts) {
  const auto tokenizer = make(unigram());
  std::map<std::string, double> scores(kPieces.begin(), kPieces.end());
  std::mt19937 random(5);
  const std::vector<std::string> letters = {"t", "h", "e", "c", "a", "t", "s", "a", "f", "i", "x"};
  for (int i = 0; i < 60; ++i) {
    std::string text;
    for (uint32_t n = 1 + random() % 9; n > 0; --n) text += letters[random() % letters.size()];
    double sum = 0;
    std::string joined;
    for (const Token token : tokenizer->encode(text, false, false)) {
      const std::string& piece = tokenizer->vocabulary().pieces[static_cast<size_t>(token)];
      sum += token == 0 ? -16.5 : scores.at(piece);
      joined += piece;
    }
    // One <unk> may stand for several characters.
    if (joined.find("<unk>") != std::string::npos) continue;
    EXPECT_NEAR(sum, best_score(scores, "▁" + text), 1e-4) << text;
  }
}

TEST(Unigram, GivesTextsBack) {
  const auto tokenizer = make(unigram());
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("the cat sat", false, false)), "the cat sat");
}

TEST(Unigram, KeepsSpacesWhereTheVocabularySaysSo) {
  Vocabulary v = unigram();
  v.merge_spaces = false;
  v.add_space_prefix = false;
  EXPECT_EQ(make(std::move(v))->encode(" a ", false, false), (std::vector<Token>{20, 3}));
}

TEST(Unigram, TakesAnyBytes) {
  const auto tokenizer = make(unigram());
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (uint32_t n = random() % 40; n > 0; --n) text += static_cast<char>(random());
    for (const Token token : tokenizer->encode(text, true, true))
      ASSERT_LT(static_cast<size_t>(token), tokenizer->vocabulary().pieces.size());
  }
}

TEST(Unigram, TakesAnyMapOfCharactersWithoutReadingOutsideIt) {
  std::mt19937 random(3);
  const std::string good = charsmap_of(kRules);
  for (int i = 0; i < 300; ++i) {
    Vocabulary v = unigram();
    for (uint32_t n = 1 + random() % 60; n > 0; --n)
      v.charsmap[4 + random() % (good.size() - 4)] = static_cast<char>(random());
    const auto made = Tokenizer::make(std::move(v));
    if (made.ok()) (*made)->encode("ﬁ Ä the cat\t\u3000", false, false);
  }
}

TEST(Unigram, SaysWhatIsWrongWithItsVocabulary) {
  const auto wrong = [](void (*change)(Vocabulary&)) {
    Vocabulary v = unigram();
    change(v);
    const auto made = Tokenizer::make(std::move(v));
    return made.ok() ? std::string() : made.error().message;
  };
  EXPECT_NE(wrong([](Vocabulary& v) { v.scores.pop_back(); }).find("scores"), std::string::npos);
  EXPECT_NE(wrong([](Vocabulary& v) { v.unknown.reset(); }).find("names no token"),
            std::string::npos);
  EXPECT_NE(wrong([](Vocabulary& v) { v.charsmap.resize(7); }).find("precompiled_charsmap"),
            std::string::npos);
  EXPECT_NE(wrong([](Vocabulary& v) { v.charsmap.pop_back(); }).find("has no end"),
            std::string::npos);
}

}  // namespace
}  // namespace kvick::text
