#pragma once
// Sets of Unicode code points, and the grammar of the bytes that spell a character of a set: in
// UTF-8, or as a JSON string writes it.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace kvick::text {

// Sorted ranges that do not touch. Surrogates are never included.
class CharSet {
 public:
  using Range = std::pair<uint32_t, uint32_t>;
  static constexpr uint32_t kLast = 0x10FFFF;

  CharSet() = default;
  static CharSet all();

  void add(uint32_t first, uint32_t last);
  void add(const CharSet& other);
  CharSet without(const CharSet& other) const;
  bool has(uint32_t code) const;
  const std::vector<Range>& ranges() const { return ranges_; }
  auto operator<=>(const CharSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// Adds a range of characters, none of them surrogates, as bytes of UTF-8.
void add_utf8(GrammarBuilder& grammar, CharSet::Range characters, StateId from, StateId to);

// Adds characters of plain text to a grammar.
class TextChars {
 public:
  explicit TextChars(GrammarBuilder& grammar) : grammar_(grammar) {}

  void one_of(const CharSet& set, StateId from, StateId to);

 private:
  GrammarBuilder& grammar_;
  std::map<CharSet, RuleId> not_ascii_;  // the rule of a set's non-ASCII part
};

// Adds characters of JSON strings to a grammar.
class StringChars {
 public:
  explicit StringChars(GrammarBuilder& grammar) : grammar_(grammar) {}

  // Adds any character, in every way of writing it; a pair of surrogate escapes is one character.
  void any(StateId from, StateId to);
  // Adds the characters of the set, unescaped, or with the shortest escape where one is needed.
  void one_of(const CharSet& set, StateId from, StateId to);

 private:
  void escape(StateId from, StateId to);
  void unicode_escape(StateId from, StateId to);
  void hex_digits(uint32_t count, StateId from, StateId to);

  GrammarBuilder& grammar_;
  std::optional<RuleId> any_;            // the rule of everything but plain ASCII
  std::map<CharSet, RuleId> not_plain_;  // the rule of what is not plain ASCII in a set
};

}  // namespace kvick::text
