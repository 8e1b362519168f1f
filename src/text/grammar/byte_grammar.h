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
  // Most levels of calls. Deeper calls are ignored, so that an answer's nesting is bounded for any
  // schema.
  static constexpr uint32_t kMostDepth = 64;
  static constexpr uint8_t kDead = 255;  // a height: the end is out of reach

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
    std::vector<StateId> skips;  // to be taken without a byte
    std::vector<Call> calls;
    uint8_t height = kDead;  // levels of calls on the shortest way to the rule's end
    bool end = false;        // of its rule; nothing leads out of it
    uint32_t room = 0;       // in a string: further characters of any kind that are accepted
  };
  struct Rule {
    StateId start, end;
  };
  std::vector<State> states;
  std::vector<Rule> rules;  // the first one is the whole
  // Bytes that every state treats alike share a class.
  std::array<uint8_t, 256> class_of = {};
  std::vector<uint8_t> classes;  // a byte of each

  // A tail call: it returns to the end of its rule, so it needs no level of its own.
  bool is_tail(const Call& call) const { return states[call.then].end; }
};

// Error messages about a grammar, in the terms of the format that it was made from.
struct GrammarWords {
  std::string_view nothing;       // no text fits
  std::string_view itself;        // a rule begins with itself
  std::string_view alternatives;  // what to do about too many in one place
};
inline constexpr GrammarWords kSchemaWords = {
    .nothing = "no JSON value matches it",
    .itself = "it refers to itself with nothing in between; put a property or an item there",
    .alternatives = "use fewer in anyOf, or fewer optional properties"};

class GrammarBuilder {
 public:
  // Most states and transitions together: some megabytes.
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

  // More than kMostParts: loops that build should stop; finish() returns the error.
  bool full() const { return parts_ > kMostParts; }

  // The grammar without dead ends. speakable: bytes that are tokens by themselves; others are
  // removed, so that there is always a token to go on with. Errors: too large; a rule that begins
  // with itself; more alternatives in one place than are followed; no text fits.
  base::Result<Grammar> finish(const ByteSet& speakable,
                               const GrammarWords& words = kSchemaWords) &&;

 private:
  Grammar grammar_;
  size_t parts_ = 0;
};

}  // namespace kvick::text
