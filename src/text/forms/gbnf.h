#pragma once
// Parses llama.cpp's grammar format, GBNF.
//
//   root ::= "yes" | "no" ("," ws [a-z]{1,9})*   # rules are names, ::= and alternatives
//   ws   ::= [ \t\n]?
//
// A rule may span several lines: it ends before the next name that is followed by "::=". Its parts
// are texts in quotes, classes ([a-z], [^"]), "." for any character, groups, names of rules, and
// the repetitions * + ? {m} {m,} {m,n} {,n}. Escapes are \n \r \t \xHH \uHHHH \UHHHHHHHH, and a
// backslash before punctuation.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/char_set.h"

namespace kvick::text {

struct GbnfPart {
  enum class Kind : uint8_t { kText, kChars, kRule, kSequence, kAlternatives, kRepeat };
  Kind kind = Kind::kSequence;
  std::string text;
  CharSet chars;
  uint32_t rule = 0;  // kRule: index into Gbnf::rules
  uint32_t least = 0;
  std::optional<uint32_t> most;
  std::vector<GbnfPart> parts;  // of a sequence or alternatives; a repetition has one
};

struct GbnfRule {
  std::string name;
  std::string place;  // "line 2, column 1": where it is defined; until then, where it is first used
  GbnfPart body;
};

struct Gbnf {
  static constexpr size_t kMostBytes = 64 << 10;
  static constexpr size_t kMostRules = 2048;
  static constexpr uint32_t kMostRepeats = 2000;
  static constexpr uint32_t kMostNesting = 50;       // of groups
  static constexpr uint32_t kMostClassItems = 1000;  // of one class

  std::vector<GbnfRule> rules;
  uint32_t root = 0;
};

// Parses a grammar. Errors: the first mistake, with its line and column.
base::Result<Gbnf> parse_gbnf(std::string_view text);

}  // namespace kvick::text
