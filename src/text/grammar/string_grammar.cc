#include "text/grammar/string_grammar.h"

#include <algorithm>
#include <map>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

// The characters of a key that is not declared.
const CharSet& unescaped() {
  static const CharSet kUnescaped = [] {
    CharSet escaped;
    escaped.add(0, 0x1F);
    escaped.add('"', '"');
    escaped.add('\\', '\\');
    return CharSet::all().without(escaped);
  }();
  return kUnescaped;
}

// RFC 3339. February 29 is accepted in leap years only.
std::string date() {
  return "(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|"
         "02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|"
         "(0[048]|[2468][048]|[13579][26])00)-02-29)";
}

std::string time() {
  const std::string clock = "([01]\\d|2[0-3]):[0-5]\\d";
  return clock + ":[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" + clock + ")";
}

std::string host(const std::string& last) {
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return "(" + label + "\\.){0,8}" + (last.empty() ? label : "(" + label + "\\." + last + ")");
}

std::string ipv4() {
  const std::string octet = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return "(" + octet + "\\.){3}" + octet;
}

}  // namespace

void StringGrammar::add(const Length& length, StateId from, StateId to) {
  StateId at = grammar_.state();
  grammar_.byte(from, '"', at);
  for (uint32_t count = 0;; ++count) {
    if (count >= length.least) grammar_.byte(at, '"', to);
    if (!length.most && count == length.least) {
      grammar_.mark_room(at, UINT32_MAX);
      return chars_.any(at, at);
    }
    if (length.most) grammar_.mark_room(at, *length.most - count);
    if (count == length.most || grammar_.full()) return;
    const StateId next = grammar_.state();
    chars_.any(at, next);
    at = next;
  }
}

// Builds the product of the pattern's states and the number of characters, as far as it can be
// reached.
base::Status<> StringGrammar::add_matching(const CharNfa& pattern, const Length& length,
                                           StateId from, StateId to) {
  const uint32_t last = length.most.value_or(length.least);
  std::map<std::pair<uint32_t, uint32_t>, StateId> states;  // by count and pattern's state
  std::vector<std::pair<uint32_t, uint32_t>> waiting;
  const auto state_of = [&](uint32_t count, uint32_t state) {
    const auto [at, is_new] = states.try_emplace({count, state});
    if (is_new) {
      at->second = grammar_.state();
      waiting.emplace_back(count, state);
    }
    return at->second;
  };
  grammar_.byte(from, '"', state_of(0, pattern.start));
  while (!waiting.empty() && !grammar_.full()) {
    const auto [count, state] = waiting.back();
    waiting.pop_back();
    const StateId at = states[{count, state}];
    if (state == pattern.end && count >= length.least) grammar_.byte(at, '"', to);
    for (const uint32_t next : pattern.states[state].skips)
      grammar_.skip(at, state_of(count, next));
    if (length.most && count == last) continue;
    for (const auto& [set, next] : pattern.states[state].edges)
      chars_.one_of(set, at, state_of(std::min(count + 1, last), next));
  }
  if (grammar_.full()) return base::fail("the pattern with its lengths becomes too large");
  return base::Done{};
}

// Follows the names' common prefixes; a key that has left them may continue with anything.
void StringGrammar::add_others(const std::vector<std::string>& names, StateId from, StateId to) {
  struct Place {
    std::map<uint32_t, size_t> next;
    bool is_name = false;
  };
  std::vector<Place> places(1);
  for (const std::string& name : names) {
    size_t at = 0;
    for (std::string_view rest = name; !rest.empty();) {
      const Utf8 character = decode_utf8(rest);
      rest.remove_prefix(character.bytes);
      const auto [found, is_new] = places[at].next.try_emplace(character.code, places.size());
      at = found->second;
      if (is_new) places.emplace_back();
    }
    places[at].is_name = true;
  }
  const StateId left = grammar_.state();
  chars_.one_of(unescaped(), left, left);
  grammar_.byte(left, '"', to);
  std::vector<StateId> states(places.size());
  for (StateId& state : states) state = grammar_.state();
  grammar_.byte(from, '"', states[0]);
  for (size_t i = 0; i < places.size() && !grammar_.full(); ++i) {
    CharSet known;
    for (const auto& [code, next] : places[i].next) {
      CharSet one;
      one.add(code, code);
      known.add(one);
      if (unescaped().has(code)) chars_.one_of(one, states[i], states[next]);
    }
    chars_.one_of(unescaped().without(known), states[i], left);
    if (!places[i].is_name) grammar_.byte(states[i], '"', to);
  }
}

std::optional<std::string> pattern_of_format(std::string_view format) {
  const auto whole = [](const std::string& body) { return "^(" + body + ")$"; };
  if (format == "date") return whole(date());
  if (format == "time") return whole(time());
  if (format == "date-time") return whole(date() + "T" + time());
  if (format == "uuid") return whole("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
  if (format == "email")
    return whole("[A-Za-z0-9_+-]+(\\.[A-Za-z0-9_+-]+){0,8}@" + host("[A-Za-z]{2,24}"));
  if (format == "hostname") return whole(host(""));
  if (format == "ipv4") return whole(ipv4());
  return std::nullopt;
}

}  // namespace kvick::text
