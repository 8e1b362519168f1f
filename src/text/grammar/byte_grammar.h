#pragma once
// A grammar over bytes: networks of states, one per rule, that call each other (recursive
// transition networks, Woods 1970). Schemas, GBNF grammars, regular expressions and choices are
// compiled to it; text/grammar/byte_automaton.h reads answers with it.

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

using StateId = uint32_t;
using RuleId = uint32_t;
using ByteSet = std::bitset<256>;

struct Grammar {
  // The most levels of calls. Deeper calls are ignored, which bounds the nesting of answers under
  // any schema.
  static constexpr uint32_t kMostDepth = 64;
  static constexpr uint8_t kDead = 255;  // height where the rule's end is unreachable

  struct Bytes {
    uint8_t first, last;
    StateId to;
  };
  struct Call {
    RuleId rule;
    StateId then;
  };
  struct State {
    std::vector<Bytes> bytes;
    std::vector<StateId> skips;  // reached without a byte
    std::vector<Call> calls;
    uint8_t height = kDead;  // levels of calls on the path to the rule's end that needs fewest
    bool end = false;        // the end of its rule; has no transitions
    uint32_t room = 0;  // in a string: at least this many more characters of any kind are accepted
  };
  struct Rule {
    StateId start, end;
  };
  std::vector<State> states;
  std::vector<Rule> rules;  // rules[0] is the whole grammar
  // Bytes that every state treats alike share a class.
  std::array<uint8_t, 256> class_of = {};
  std::vector<uint8_t> classes;  // one byte of each class

  // A tail call returns to the end of the calling rule, so it needs no level of its own.
  bool is_tail(const Call& call) const { return states[call.then].end; }
};

// Parts of error messages, in the terms of the format that the grammar was compiled from.
struct GrammarWords {
  std::string_view nothing;       // no text matches
  std::string_view itself;        // a rule begins with itself
  std::string_view alternatives;  // advice when one place has too many alternatives
};
inline constexpr GrammarWords kSchemaWords = {
    .nothing = "no JSON value matches it",
    .itself = "it refers to itself with nothing in between; put a property or an item there",
    .alternatives = "use fewer in anyOf, or fewer optional properties"};

class GrammarBuilder {
 public:
  // The most states and transitions together; they take some megabytes.
  static constexpr size_t kMostParts = 200'000;

  RuleId rule();
  StateId start(RuleId rule) const { return grammar_.rules[rule].start; }
  StateId end(RuleId rule) const { return grammar_.rules[rule].end; }
  StateId state();

  void bytes(StateId from, uint8_t first, uint8_t last, StateId to);
  void byte(StateId from, char byte, StateId to);
  void any_of(StateId from, std::string_view bytes, StateId to);
  void skip(StateId from, StateId to);
  void call(StateId from, RuleId rule, StateId then);
  void literal(StateId from, std::string_view text, StateId to);
  void mark_room(StateId state, uint32_t room) { grammar_.states[state].room = room; }

  // More than kMostParts: callers should stop adding parts; finish() then returns the error.
  bool full() const { return parts_ > kMostParts; }

  // Returns the grammar without dead ends. speakable: the bytes that are tokens by themselves. All
  // other bytes are removed, so that some token can always continue an answer. Errors: it is too
  // large; a rule begins with itself; one place has too many alternatives; no text matches.
  base::Result<Grammar> finish(const ByteSet& speakable,
                               const GrammarWords& words = kSchemaWords) &&;

 private:
  Grammar grammar_;
  size_t parts_ = 0;
};

}  // namespace kvick::text
