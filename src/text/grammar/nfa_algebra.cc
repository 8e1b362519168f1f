#include "text/grammar/nfa_algebra.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "text/grammar/char_classes.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

// Limit on the number of character ranges that are examined.
constexpr size_t kMostWork = 300'000;

CharSet common(const CharSet& a, const CharSet& b) {
  CharSet out;
  for (size_t i = 0, j = 0; i < a.ranges().size() && j < b.ranges().size();) {
    const auto& [first, last] = a.ranges()[i];
    const auto& [begin, end] = b.ranges()[j];
    if (std::max(first, begin) <= std::min(last, end))
      out.add(std::max(first, begin), std::min(last, end));
    ++(last < end ? i : j);
  }
  return out;
}

// The edges of a state and of all states that its skips lead to.
struct Ways {
  std::vector<std::pair<const CharSet*, uint32_t>> edges;
  bool end = false;
};

Ways ways_of(const CharNfa& nfa, uint32_t state, std::vector<bool>& seen) {
  Ways ways;
  std::vector<uint32_t> found = {state};
  seen[state] = true;
  for (size_t i = 0; i < found.size(); ++i) {
    const CharNfa::State& at = nfa.states[found[i]];
    ways.end = ways.end || found[i] == nfa.end;
    for (const auto& [set, to] : at.edges) ways.edges.emplace_back(&set, to);
    for (const uint32_t to : at.skips) {
      if (!seen[to]) found.push_back(to);
      seen[to] = true;
    }
  }
  for (const uint32_t one : found) seen[one] = false;
  return ways;
}

using States = std::set<uint32_t>;

// Adds a state and all states that its skips lead to.
void add_reached(const CharNfa& nfa, uint32_t state, States& out) {
  std::vector<uint32_t> waiting = {state};
  while (!waiting.empty()) {
    const uint32_t at = waiting.back();
    waiting.pop_back();
    if (!out.insert(at).second) continue;
    waiting.insert(waiting.end(), nfa.states[at].skips.begin(), nfa.states[at].skips.end());
  }
}

// Returns the code points at which some set begins or ends. Between two of them, each set contains
// all characters or none.
States cuts_of(const CharNfa& nfa, const States& from) {
  States cuts = {0, CharSet::kLast + 1};
  for (const uint32_t state : from)
    for (const auto& [set, to] : nfa.states[state].edges)
      for (const auto& [first, last] : set.ranges()) {
        cuts.insert(first);
        cuts.insert(last + 1);
      }
  return cuts;
}

}  // namespace

// The states are pairs reached by a character. Pairs reached by skips are not states of their own,
// because there would be many in one place.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b) {
  using Pair = std::pair<uint32_t, uint32_t>;
  CharNfa out;
  std::map<Pair, uint32_t> states;
  std::vector<Pair> waiting;
  const auto state_of = [&](uint32_t of_a, uint32_t of_b) {
    const auto [at, is_new] =
        states.try_emplace({of_a, of_b}, static_cast<uint32_t>(out.states.size()));
    if (is_new) {
      out.states.emplace_back();
      waiting.emplace_back(of_a, of_b);
    }
    return at->second;
  };
  out.states.emplace_back();  // the end
  out.start = state_of(a.start, b.start);
  std::vector<bool> seen_a(a.states.size()), seen_b(b.states.size());
  size_t work = 0;
  while (!waiting.empty()) {
    const Pair pair = waiting.back();
    waiting.pop_back();
    const Ways in_a = ways_of(a, pair.first, seen_a), in_b = ways_of(b, pair.second, seen_b);
    CharNfa::State one;
    if (in_a.end && in_b.end) one.skips.push_back(out.end);
    for (const auto& [set_a, to_a] : in_a.edges)
      for (const auto& [set_b, to_b] : in_b.edges) {
        work += 1 + set_a->ranges().size() + set_b->ranges().size();
        if (work > kMostWork || out.states.size() > CharNfa::kMostStates)
          return base::fail("together with another one it becomes too large; leave one out");
        CharSet set = common(*set_a, *set_b);
        if (!set.ranges().empty()) one.edges.emplace_back(std::move(set), state_of(to_a, to_b));
      }
    out.states[states[pair]] = std::move(one);
  }
  return out;
}

// The subset construction (Rabin and Scott 1959): a text is accepted if it leads to a set without
// the end state.
base::Result<CharNfa> other_texts(const CharNfa& nfa) {
  CharNfa out;
  std::map<States, uint32_t> known;
  std::vector<States> waiting;
  const auto state_of = [&](const States& states) {
    const auto [at, is_new] = known.try_emplace(states, static_cast<uint32_t>(out.states.size()));
    if (is_new) {
      out.states.emplace_back();
      waiting.push_back(states);
    }
    return at->second;
  };
  out.states.emplace_back();  // the end
  States first;
  add_reached(nfa, nfa.start, first);
  out.start = state_of(first);
  size_t work = 0;
  while (!waiting.empty()) {
    const States from = std::move(waiting.back());
    waiting.pop_back();
    std::map<States, CharSet> ways;
    const States cuts = cuts_of(nfa, from);
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      States reached;
      for (const uint32_t state : from)
        for (const auto& [set, to] : nfa.states[state].edges) {
          work += set.ranges().size();
          if (set.has(*cut)) add_reached(nfa, to, reached);
        }
      work += from.size() + reached.size();
      if (work > kMostWork) return base::fail("a look-ahead becomes too large; use a simpler one");
      ways[std::move(reached)].add(*cut, *std::next(cut) - 1);
    }
    CharNfa::State one;
    if (!from.contains(nfa.end)) one.skips.push_back(out.end);
    for (auto& [to, set] : ways)
      if (!set.ranges().empty()) one.edges.emplace_back(std::move(set), state_of(to));
    out.states[known[from]] = std::move(one);
  }
  return out;
}

// A state also says whether the last character belongs to a word, and of which kind the next one
// must be after the boundaries that were passed since.
base::Result<CharNfa> without_boundaries(const CharNfa& nfa, bool behind_word) {
  enum class Next : uint8_t { kAny, kWord, kOther };
  using Place = std::tuple<uint32_t, bool, Next>;
  const CharSet word = class_of('w', true), other = CharSet::all().without(word);
  CharNfa out;
  std::map<Place, uint32_t> known;
  std::vector<Place> waiting;
  const auto state_of = [&](uint32_t state, bool in_word, Next next) {
    const auto [at, is_new] =
        known.try_emplace({state, in_word, next}, static_cast<uint32_t>(out.states.size()));
    if (is_new) {
      out.states.emplace_back();
      waiting.push_back(at->first);
    }
    return at->second;
  };
  out.states.emplace_back();  // the end
  out.start = state_of(nfa.start, behind_word, Next::kAny);
  while (!waiting.empty()) {
    if (out.states.size() > CharNfa::kMostStates)
      return base::fail("its word boundaries make it too large; use smaller repetitions");
    const Place place = waiting.back();
    waiting.pop_back();
    const auto [state, in_word, next] = place;
    CharNfa::State one;
    if (state == nfa.end && next != Next::kWord) one.skips.push_back(out.end);
    for (const uint32_t to : nfa.states[state].skips)
      one.skips.push_back(state_of(to, in_word, next));
    for (const auto& [wanted, to] : nfa.states[state].behind)
      if (in_word == wanted) one.skips.push_back(state_of(to, in_word, next));
    for (const auto& [changes, to] : nfa.states[state].boundaries) {
      const Next wanted = in_word == changes ? Next::kOther : Next::kWord;
      if (next == Next::kAny || next == wanted) one.skips.push_back(state_of(to, in_word, wanted));
    }
    for (const auto& [set, to] : nfa.states[state].edges)
      for (const bool of_word : {false, true}) {
        if (next == (of_word ? Next::kOther : Next::kWord)) continue;
        CharSet some = common(set, of_word ? word : other);
        if (some.ranges().empty()) continue;
        one.edges.emplace_back(std::move(some), state_of(to, of_word, Next::kAny));
      }
    out.states[known[place]] = std::move(one);
  }
  return out;
}

bool takes_any(const CharNfa& nfa) {
  std::vector<bool> seen(nfa.states.size());
  std::vector<uint32_t> waiting = {nfa.start};
  while (!waiting.empty()) {
    const uint32_t at = waiting.back();
    waiting.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    waiting.insert(waiting.end(), nfa.states[at].skips.begin(), nfa.states[at].skips.end());
    for (const auto& [set, to] : nfa.states[at].edges)
      if (!set.ranges().empty()) waiting.push_back(to);
  }
  return seen[nfa.end];
}

std::optional<bool> takes(const CharNfa& nfa, std::string_view text, size_t& budget) {
  States at;
  add_reached(nfa, nfa.start, at);
  while (!text.empty() && !at.empty()) {
    const Utf8 next = decode_utf8(text);
    text.remove_prefix(next.bytes);
    States reached;
    for (const uint32_t state : at)
      for (const auto& [set, to] : nfa.states[state].edges)
        if (next.valid && set.has(next.code)) add_reached(nfa, to, reached);
    const size_t visited = at.size() + reached.size();
    if (visited > budget) return std::nullopt;
    budget -= visited;
    at = std::move(reached);
  }
  return at.contains(nfa.end);
}

}  // namespace kvick::text
