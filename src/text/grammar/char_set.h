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

// Sorted ranges that do not touch; surrogates are no characters.
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

// Characters, none of them surrogates, as bytes of UTF-8.
void add_utf8(GrammarBuilder& grammar, CharSet::Range characters, StateId from, StateId to);

// Characters of a text as parts of a grammar.
class TextChars {
 public:
  explicit TextChars(GrammarBuilder& grammar) : grammar_(grammar) {}

  void one_of(const CharSet& set, StateId from, StateId to);

 private:
  GrammarBuilder& grammar_;
  std::map<CharSet, RuleId> not_ascii_;  // per set, its non-ASCII part
};

// Characters of JSON strings as parts of a grammar.
class StringChars {
 public:
  explicit StringChars(GrammarBuilder& grammar) : grammar_(grammar) {}

  // Any character, in any of the ways to write it; a pair of surrogate escapes is one.
  void any(StateId from, StateId to);
  // A character of the set: as it is, or with the shortest escape where it needs one.
  void one_of(const CharSet& set, StateId from, StateId to);

 private:
  void escape(StateId from, StateId to);
  void unicode_escape(StateId from, StateId to);
  void hex_digits(uint32_t count, StateId from, StateId to);

  GrammarBuilder& grammar_;
  std::optional<RuleId> any_;            // all that is not plain ASCII
  std::map<CharSet, RuleId> not_plain_;  // per set, what is not plain ASCII
};

}  // namespace kvick::text
