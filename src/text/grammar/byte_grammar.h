#pragma once
// A grammar over bytes: networks of states, one per rule, that call each other (recursive
// transition networks, Woods 1970). What schemas, grammars in GBNF, regular expressions and choices
// are compiled to; text/grammar/byte_automaton.h reads answers with it.

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
  // Levels of calls: beyond them a call is as good as not there, so that an answer's nesting is
  // bounded, whatever the schema.
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
    uint8_t height = kDead;  // levels of calls that the shortest way to the rule's end needs
    bool end = false;        // of its rule; nothing leads out of it
    uint32_t room = 0;       // in a string: so many more characters of any kind are all right
  };
  struct Rule {
    StateId start, end;
  };
  std::vector<State> states;
  std::vector<Rule> rules;  // the first one is the whole
  // Bytes that every state treats alike share a class.
  std::array<uint8_t, 256> class_of = {};
  std::vector<uint8_t> classes;  // a byte of each

  // A call whose return is the rule's end needs no level of its own.
  bool is_tail(const Call& call) const { return states[call.then].end; }
};

// What is wrong with a grammar, in the words of what it was made of.
struct GrammarWords {
  std::string_view nothing;       // no text fits
  std::string_view itself;        // a rule begins with itself
  std::string_view alternatives;  // what to do about too many in one place
};
inline constexpr GrammarWords kSchemaWords = {
    .nothing = "nothing can be an instance of it",
    .itself = "it refers to itself with nothing in between; put a property or an item there",
    .alternatives = "use fewer in anyOf, or fewer optional properties"};

class GrammarBuilder {
 public:
  // States and what leads out of them, in all: some megabytes.
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

  // More than kMostParts: who builds in a loop stops, finish() says so.
  bool full() const { return parts_ > kMostParts; }

  // The grammar without what leads nowhere. speakable: bytes that an answer can be spelled with one
  // by one; others are left out, so that there is always a way on. Errors: too large; a rule that
  // begins with itself; more alternatives in one place than are followed; no text fits.
  base::Result<Grammar> finish(const ByteSet& speakable,
                               const GrammarWords& words = kSchemaWords) &&;

 private:
  Grammar grammar_;
  size_t parts_ = 0;
};

}  // namespace kvick::text
