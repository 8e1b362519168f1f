#include "text/grammar/byte_grammar.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "text/grammar/byte_automaton.h"

namespace kvick::text {
namespace {

using base::fail;
using State = Grammar::State;

// Removes the bytes that are not speakable from all transitions.
void keep_speakable(const ByteSet& speakable, std::vector<State>& states) {
  for (State& state : states) {
    std::vector<Grammar::Bytes> kept;
    for (const Grammar::Bytes& edge : state.bytes) {
      for (uint32_t byte = edge.first; byte <= edge.last; ++byte) {
        if (!speakable[byte]) continue;
        const auto it = static_cast<uint8_t>(byte);
        const bool grows = !kept.empty() && kept.back().to == edge.to &&
                           kept.back().last + 1U == byte && byte > edge.first;
        if (grows)
          kept.back().last = it;
        else
          kept.push_back({it, it, edge.to});
      }
    }
    state.bytes = std::move(kept);
  }
}

// Computes heights by Knuth's generalisation of Dijkstra's algorithm: states are settled in order
// of height, and a call is settled when both its rule and the state after it are.
class Heights {
 public:
  explicit Heights(Grammar& grammar) : g_(grammar), into_(grammar.states.size()) {
    for (StateId from = 0; from < g_.states.size(); ++from) {
      for (const auto& edge : g_.states[from].bytes) into_[edge.to].push_back({from, kNoCall});
      for (const StateId to : g_.states[from].skips) into_[to].push_back({from, kNoCall});
      for (uint32_t i = 0; i < g_.states[from].calls.size(); ++i) {
        const Grammar::Call& call = g_.states[from].calls[i];
        into_[call.then].push_back({from, i});
        into_[g_.rules[call.rule].start].push_back({from, i});
      }
    }
  }

  void settle() {
    for (const Grammar::Rule& rule : g_.rules) waiting_[0].push_back(rule.end);
    for (uint32_t height = 0; height <= Grammar::kMostDepth; ++height) {
      while (!waiting_[height].empty()) {
        const StateId state = waiting_[height].back();
        waiting_[height].pop_back();
        if (g_.states[state].height != Grammar::kDead) continue;
        g_.states[state].height = static_cast<uint8_t>(height);
        for (const Way& way : into_[state]) reach(way, height);
      }
    }
  }

 private:
  static constexpr uint32_t kNoCall = UINT32_MAX;
  struct Way {
    StateId from;
    uint32_t call;  // index in calls of `from`, or kNoCall
  };

  void reach(const Way& way, uint32_t height) {
    const State& from = g_.states[way.from];
    if (from.height != Grammar::kDead) return;
    if (way.call != kNoCall) {
      const Grammar::Call& call = from.calls[way.call];
      const uint32_t inside = g_.states[g_.rules[call.rule].start].height;
      const uint32_t then = g_.states[call.then].height;
      if (inside == Grammar::kDead || then == Grammar::kDead) return;
      height = std::max(then, inside + (g_.is_tail(call) ? 0 : 1));
    }
    if (height <= Grammar::kMostDepth) waiting_[height].push_back(way.from);
  }

  Grammar& g_;
  std::vector<std::vector<Way>> into_;
  std::array<std::vector<StateId>, Grammar::kMostDepth + 1> waiting_;
};

void remove_dead(Grammar& g) {
  const auto dead = [&](StateId state) { return g.states[state].height == Grammar::kDead; };
  for (State& state : g.states) {
    std::erase_if(state.bytes, [&](const auto& edge) { return dead(edge.to); });
    std::erase_if(state.skips, dead);
    std::erase_if(state.calls, [&](const auto& call) {
      return dead(call.then) || dead(g.rules[call.rule].start);
    });
  }
}

void find_classes(Grammar& g) {
  std::bitset<257> begins;
  begins[0] = true;
  for (const State& state : g.states)
    for (const auto& edge : state.bytes) begins[edge.first] = begins[edge.last + 1U] = true;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (begins[byte]) g.classes.push_back(static_cast<uint8_t>(byte));
    g.class_of[byte] = static_cast<uint8_t>(g.classes.size() - 1);
  }
}

// Finds the rules that accept the empty text, backwards from their ends. Each transition is
// followed once.
class Nullable {
 public:
  explicit Nullable(const Grammar& grammar)
      : g_(grammar), empty_(grammar.states.size()), into_(grammar.states.size()) {
    for (StateId from = 0; from < g_.states.size(); ++from) {
      for (const StateId to : g_.states[from].skips) into_[to].push_back(from);
      for (const Grammar::Call& call : g_.states[from].calls) {
        into_[call.then].push_back(from);
        into_[g_.rules[call.rule].start].push_back(from);
      }
    }
  }

  std::vector<bool> rules() {
    for (const Grammar::Rule& rule : g_.rules) reach(rule.end);
    for (; !waiting_.empty();) {
      const StateId to = waiting_.back();
      waiting_.pop_back();
      for (const StateId from : into_[to])
        if (goes_on_empty(g_.states[from])) reach(from);
    }
    std::vector<bool> nullable;
    for (const Grammar::Rule& rule : g_.rules) nullable.push_back(empty_[rule.start]);
    return nullable;
  }

 private:
  void reach(StateId state) {
    if (empty_[state]) return;
    empty_[state] = true;
    waiting_.push_back(state);
  }
  bool goes_on_empty(const State& state) const {
    return std::any_of(state.skips.begin(), state.skips.end(),
                       [&](StateId to) { return empty_[to]; }) ||
           std::any_of(state.calls.begin(), state.calls.end(), [&](const Grammar::Call& call) {
             return empty_[call.then] && empty_[g_.rules[call.rule].start];
           });
  }

  const Grammar& g_;
  std::vector<bool> empty_;  // [states] whether the rule's end can be reached without a byte
  std::vector<std::vector<StateId>> into_;
  std::vector<StateId> waiting_;
};

// Finds the states that can be reached before a byte is read.
class Reach {
 public:
  explicit Reach(const Grammar& grammar)
      : g_(grammar), nullable_(Nullable(grammar).rules()), seen_(grammar.states.size()) {}

  // Returns the reached states. into: also those of called rules. Stops early when there are too
  // many.
  const std::vector<StateId>& from(StateId state, bool into) {
    ++round_;
    found_.clear();
    add(state);
    for (size_t i = 0; i < found_.size() && found_.size() <= kMost; ++i) {
      const State& at = g_.states[found_[i]];
      for (const StateId to : at.skips) add(to);
      for (const Grammar::Call& call : at.calls) {
        if (into) add(g_.rules[call.rule].start);
        if (nullable_[call.rule]) add(call.then);
      }
    }
    return found_;
  }

  static constexpr size_t kMost = 4 * ByteAutomaton::kMostReadings;

 private:
  bool seen(StateId state) const { return seen_[state] == round_; }
  void add(StateId state) {
    if (seen(state)) return;
    seen_[state] = round_;
    found_.push_back(state);
  }

  const Grammar& g_;
  std::vector<bool> nullable_;  // [rules]
  std::vector<uint32_t> seen_;  // [states] the last round that reached it
  std::vector<StateId> found_;
  uint32_t round_ = 0;
};

// The most pairs of a state and a stack that one place may have before a byte is read. The
// automaton visits all of them, and rules that call others twice double them at each level.
constexpr uint64_t kMostWays = 4 * Reach::kMost;

// Returns whether some rule begins with itself: repeatedly removes a rule that begins with none of
// the rules left. ways: [rules], at first 0; receives the number of pairs before each rule's first
// byte.
bool begins_with_itself(const Grammar& g, Reach& reach, std::vector<uint64_t>& ways) {
  std::vector<std::vector<RuleId>> beginners(g.rules.size());  // rules that begin with this one
  std::vector<size_t> left(g.rules.size());
  for (RuleId rule = 0; rule < g.rules.size(); ++rule) {
    const std::vector<StateId>& found = reach.from(g.rules[rule].start, false);
    ways[rule] = found.size();
    for (const StateId state : found)
      for (const Grammar::Call& call : g.states[state].calls) {
        beginners[call.rule].push_back(rule);
        ++left[rule];
      }
  }
  std::vector<RuleId> free;
  for (RuleId rule = 0; rule < g.rules.size(); ++rule)
    if (left[rule] == 0) free.push_back(rule);
  for (size_t i = 0; i < free.size(); ++i)
    for (const RuleId beginner : beginners[free[i]]) {
      ways[beginner] = std::min(ways[beginner] + ways[free[i]], kMostWays + 1);
      if (--left[beginner] == 0) free.push_back(beginner);
    }
  return free.size() < g.rules.size();
}

// Returns the number of pairs of a state and a stack at this state, before a byte is read.
uint64_t ways_at(const Grammar& g, Reach& reach, StateId state, std::span<const uint64_t> ways) {
  const std::vector<StateId>& found = reach.from(state, false);
  uint64_t pairs = found.size();
  for (const StateId one : found)
    for (const Grammar::Call& call : g.states[one].calls)
      pairs = std::min(pairs + ways[call.rule], kMostWays + 1);
  return pairs;
}

// Returns all states, beginning with those that no other state skips to.
std::vector<StateId> entrances_first(const Grammar& g) {
  std::vector<bool> behind(g.states.size());
  for (const State& state : g.states)
    for (const StateId to : state.skips) behind[to] = true;
  std::vector<StateId> order(g.states.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [&](StateId state) { return !behind[state]; });
  return order;
}

// A state reached from a checked one without a byte has no more ways than that one, so it counts as
// checked. Thus each long chain is examined once.
base::Status<> check_breadth(const Grammar& g, Reach& reach, std::span<const uint64_t> ways,
                             std::string_view advice) {
  std::vector<bool> checked(g.states.size());
  for (const StateId state : entrances_first(g)) {
    if (checked[state]) continue;
    if (ways_at(g, reach, state, ways) > kMostWays)
      return fail("more than {} ways to go on in one place; {}", kMostWays, advice);
    const std::vector<StateId>& found = reach.from(state, true);
    const auto readings = std::count_if(found.begin(), found.end(),
                                        [&](StateId one) { return !g.states[one].bytes.empty(); });
    if (found.size() > Reach::kMost || readings > ByteAutomaton::kMostReadings / 2)
      return fail("more than {} alternatives in one place; {}", ByteAutomaton::kMostReadings / 2,
                  advice);
    for (const StateId one : found) checked[one] = true;
  }
  return base::Done{};
}

}  // namespace

RuleId GrammarBuilder::rule() {
  const StateId start = state(), end = state();
  grammar_.states[end].end = true;
  grammar_.rules.push_back({start, end});
  return static_cast<RuleId>(grammar_.rules.size() - 1);
}

StateId GrammarBuilder::state() {
  ++parts_;
  grammar_.states.emplace_back();
  return static_cast<StateId>(grammar_.states.size() - 1);
}

void GrammarBuilder::bytes(StateId from, uint8_t first, uint8_t last, StateId to) {
  ++parts_;
  grammar_.states[from].bytes.push_back({first, last, to});
}

void GrammarBuilder::byte(StateId from, char byte, StateId to) {
  bytes(from, static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), to);
}

void GrammarBuilder::any_of(StateId from, std::string_view bytes, StateId to) {
  for (const char one : bytes) byte(from, one, to);
}

void GrammarBuilder::skip(StateId from, StateId to) {
  ++parts_;
  grammar_.states[from].skips.push_back(to);
}

void GrammarBuilder::call(StateId from, RuleId rule, StateId then) {
  ++parts_;
  grammar_.states[from].calls.push_back({rule, then});
}

void GrammarBuilder::literal(StateId from, std::string_view text, StateId to) {
  if (text.empty()) return skip(from, to);
  for (; text.size() > 1; text.remove_prefix(1)) {
    const StateId next = state();
    byte(from, text[0], next);
    from = next;
  }
  byte(from, text[0], to);
}

base::Result<Grammar> GrammarBuilder::finish(const ByteSet& speakable,
                                             const GrammarWords& words) && {
  if (full()) return fail("it becomes too large; use smaller counts or fewer parts");
  keep_speakable(speakable, grammar_.states);
  Heights(grammar_).settle();
  remove_dead(grammar_);
  if (grammar_.states[start(0)].height == Grammar::kDead)
    return fail("{}, within {} levels of nesting", words.nothing, Grammar::kMostDepth);
  Reach reach(grammar_);
  std::vector<uint64_t> ways(grammar_.rules.size());
  if (begins_with_itself(grammar_, reach, ways)) return fail("{}", words.itself);
  KVICK_TRY_VOID(check_breadth(grammar_, reach, ways, words.alternatives));
  find_classes(grammar_);
  return std::move(grammar_);
}

}  // namespace kvick::text
