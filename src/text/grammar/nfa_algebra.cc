#include "text/grammar/nfa_algebra.h"

#include <algorithm>
#include <map>

namespace kvick::text {
namespace {

// Ranges of characters that are compared with each other.
constexpr size_t kMostWork = 1'000'000;

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

// What a state leads to, that of its skips too.
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

}  // namespace

// States are pairs that a character leads to: pairs of those that are reached without one would be
// many in one place.
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

}  // namespace kvick::text
