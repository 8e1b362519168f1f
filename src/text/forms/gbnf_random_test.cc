// Random grammars: a text is accepted exactly if the test's own recogniser accepts it, every prefix
// of an accepted text can be continued, and a mask leaves exactly the tokens that can follow.

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>

#include "text/forms/gbnf.h"
#include "text/forms/test_forms.h"
#include "text/grammar/grammar_constraint.h"
#include "text/schema/test_tokens.h"

namespace kvick::text {
namespace {

using Random = std::mt19937;
using Kind = GbnfPart::Kind;

// Finds the places where a part that begins at a given place of the text may end, by trying all of
// them, without an automaton. The grammars are of ASCII. Their rules call only later rules, or any
// rule after a bracket. Brackets keep the number of readings below ByteAutomaton::kMostReadings, so
// that the automaton drops none.
class Recogniser {
 public:
  Recogniser(const Gbnf& gbnf, std::string text) : gbnf_(gbnf), text_(std::move(text)) {}

  bool takes() { return ends(gbnf_.rules[gbnf_.root].body, 0).count(text_.size()) > 0; }

 private:
  using Ends = std::set<size_t>;

  Ends behind(const GbnfPart& part, const Ends& places) {
    Ends all;
    for (const size_t place : places) all.merge(ends(part, place));
    return all;
  }

  Ends ends(const GbnfPart& part, size_t at) {
    const auto known = known_.find({&part, at});
    if (known != known_.end()) return known->second;
    Ends found;
    if (part.kind == Kind::kText && text_.compare(at, part.text.size(), part.text) == 0)
      found.insert(at + part.text.size());
    if (part.kind == Kind::kChars && at < text_.size() &&
        part.chars.has(static_cast<uint8_t>(text_[at])))
      found.insert(at + 1);
    if (part.kind == Kind::kRule) found = ends(gbnf_.rules[part.rule].body, at);
    if (part.kind == Kind::kAlternatives)
      for (const GbnfPart& one : part.parts) found.merge(ends(one, at));
    if (part.kind == Kind::kSequence) {
      found = {at};
      for (const GbnfPart& one : part.parts) found = behind(one, found);
    }
    if (part.kind == Kind::kRepeat) found = repeated(part, at);
    return known_[{&part, at}] = found;
  }

  Ends repeated(const GbnfPart& part, size_t at) {
    Ends found, now = {at};
    // More rounds than `least` plus the remaining characters find no new end.
    const size_t rounds =
        std::min<size_t>(part.most.value_or(UINT32_MAX), part.least + text_.size() + 1);
    for (size_t i = 0; i <= rounds; ++i) {
      if (i >= part.least) found.insert(now.begin(), now.end());
      if (i < rounds) now = behind(part.parts[0], now);
    }
    return found;
  }

  const Gbnf& gbnf_;
  std::string text_;
  std::map<std::pair<const GbnfPart*, size_t>, Ends> known_;
};

constexpr int kRules = 3;

std::string random_body(Random& random, int rule, int depth);

std::string random_element(Random& random, int rule, int depth) {
  static const std::vector<std::string> kAtoms = {"\"a\"", "\"ab\"", "\"\"",
                                                  "[ab]",  "[^a<]",  "[b>]"};
  if (depth > 0 && random() % 3 == 0) return "(" + random_body(random, rule, depth - 1) + ")";
  if (rule + 1 < kRules && random() % 3 == 0)
    return fmt::format("r{}", rule + 1 + static_cast<int>(random() % (kRules - 1 - rule)));
  if (random() % 5 == 0) return fmt::format("\"<\" r{} \">\"", random() % kRules);
  return kAtoms[random() % kAtoms.size()];
}

std::string random_body(Random& random, int rule, int depth) {
  static const std::vector<std::string> kCounts = {"*", "+", "?", "{2}", "{1,}", "{,2}", "{1,3}"};
  std::string out;
  for (size_t n = random() % 3; n > 0; --n) {
    out += " (" + random_element(random, rule, depth) + ")";
    if (random() % 3 == 0) out += kCounts[random() % kCounts.size()];
  }
  if (random() % 3 == 0) out += " | " + random_body(random, rule, std::max(depth - 1, 0));
  return out;
}

std::string random_grammar(Random& random) {
  std::string out = "root ::= r0\n";
  for (int rule = 0; rule < kRules; ++rule)
    out += fmt::format("r{} ::={}\n", rule, random_body(random, rule, 1));
  return out;
}

std::vector<std::string> all_texts(size_t longest) {
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i)
    if (texts[i].size() < longest)
      for (const char letter : {'a', 'b', '<', '>'}) texts.push_back(texts[i] + letter);
  return texts;
}

TEST(RandomGbnf, TakesWhatANaiveRecogniserTakes) {
  const std::vector<std::string> texts = all_texts(5);
  int taken = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const std::string source = random_grammar(random);
    SCOPED_TRACE(source);
    const Gbnf parsed = std::move(parse_gbnf(source)).value();
    auto made = gbnf(source);
    if (!made.ok()) continue;  // no text fits
    GrammarTexts form(std::move(made));
    for (const std::string& text : texts) {
      const bool twin = Recogniser(parsed, text).takes();
      ASSERT_EQ(form.takes(text), twin) << "'" << text << "'";
      for (size_t cut = 0; twin && cut <= text.size(); ++cut)
        ASSERT_TRUE(form.begins(std::string_view(text).substr(0, cut))) << text;
      taken += twin ? 1 : 0;
    }
  }
  EXPECT_GT(taken, 5000);
}

TEST(RandomGbnf, WhatIsDrawnUnderTheMaskIsTaken) {
  const JsonTokens tokens;
  int whole = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const std::string source = random_grammar(random);
    SCOPED_TRACE(source);
    auto made = gbnf_grammar(source, tokens.trie->speakable());
    if (!made.ok()) continue;
    const auto constraint = grammar_constraint(tokens.trie, std::move(made).value())->clone();
    GrammarTexts form(gbnf(source));
    std::string text;
    for (int i = 0; i < 60; ++i) {
      const std::vector<Token> allowed = tokens.allowed(*constraint);
      std::vector<Token> twin;
      for (size_t t = 0; t < tokens.vocab; ++t) {
        const std::string piece = tokens.tokenizer->piece(static_cast<Token>(t), false);
        if (!piece.empty() && form.begins(text + piece)) twin.push_back(static_cast<Token>(t));
      }
      if (form.takes(text)) twin.push_back(tokens.end);
      ASSERT_EQ(allowed, twin) << text;
      const bool ends = allowed.back() == tokens.end && i > 3;
      const Token next = ends ? tokens.end : allowed[random() % allowed.size()];
      constraint->accept(next);
      if (next == tokens.end) {
        ASSERT_TRUE(form.takes(text)) << text;
        ++whole;
        break;
      }
      text += tokens.tokenizer->piece(next, false);
    }
  }
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace kvick::text
