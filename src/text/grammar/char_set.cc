#include "text/grammar/char_set.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr std::string_view kHex = "0123456789abcdefABCDEF";

// ASCII characters that a JSON string holds without an escape.
const CharSet& plain_ascii() {
  static const CharSet kPlain = [] {
    CharSet set;
    set.add(0x20, '"' - 1);
    set.add('"' + 1, '\\' - 1);
    set.add('\\' + 1, 0x7F);
    return set;
  }();
  return kPlain;
}

std::string escape_of(uint32_t code) {
  switch (code) {
    case '"':
    case '\\':
      return {'\\', static_cast<char>(code)};
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", code);
  }
}

}  // namespace

CharSet CharSet::all() {
  CharSet set;
  set.add(0, kLast);
  return set;
}

void CharSet::add(uint32_t first, uint32_t last) {
  const auto merge = [this](uint32_t a, uint32_t b) {
    if (a > b) return;
    if (ranges_.empty() || ranges_.back().second + 1 < a) {
      ranges_.emplace_back(a, b);
      return;
    }
    const auto touches = [&](const Range& r) { return r.first <= b + 1 && a <= r.second + 1; };
    for (const Range& range : ranges_) {
      if (!touches(range)) continue;
      a = std::min(a, range.first);
      b = std::max(b, range.second);
    }
    std::erase_if(ranges_, touches);
    ranges_.insert(std::upper_bound(ranges_.begin(), ranges_.end(), Range(a, b)), Range(a, b));
  };
  merge(first, std::min<uint32_t>(last, 0xD7FF));
  merge(std::max<uint32_t>(first, 0xE000), std::min(last, kLast));
}

void CharSet::add(const CharSet& other) {
  for (const auto& [first, last] : other.ranges_) add(first, last);
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet left;
  for (auto [first, last] : ranges_) {
    for (const Range& cut : other.ranges_) {
      if (cut.second < first || cut.first > last) continue;
      if (cut.first > first) left.add(first, cut.first - 1);
      first = cut.second + 1;
    }
    if (first <= last) left.add(first, last);
  }
  return left;
}

bool CharSet::has(uint32_t code) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return range.first <= code && code <= range.second;
  });
}

// Splits the range until each part is a product of byte ranges: all its characters have the same
// length, and if a byte varies, the bytes after it take all values.
void add_utf8(GrammarBuilder& grammar, CharSet::Range characters, StateId from, StateId to) {
  const auto [first, last] = characters;
  for (const uint32_t longest : {0x7FU, 0x7FFU, 0xFFFFU}) {
    if (first > longest || last <= longest) continue;
    add_utf8(grammar, {first, longest}, from, to);
    return add_utf8(grammar, {longest + 1, last}, from, to);
  }
  for (uint32_t bits = 6; bits <= 18; bits += 6) {
    const uint32_t low = (1U << bits) - 1;
    if ((first | low) == (last | low)) continue;
    if ((first & low) != 0) {
      add_utf8(grammar, {first, first | low}, from, to);
      return add_utf8(grammar, {(first | low) + 1, last}, from, to);
    }
    if ((last & low) != low) {
      add_utf8(grammar, {first, (last & ~low) - 1}, from, to);
      return add_utf8(grammar, {last & ~low, last}, from, to);
    }
  }
  std::string lowest, highest;
  append_utf8(first, lowest);
  append_utf8(last, highest);
  for (size_t i = 0; i < lowest.size(); ++i) {
    const StateId next = i + 1 == lowest.size() ? to : grammar.state();
    grammar.bytes(from, static_cast<uint8_t>(lowest[i]), static_cast<uint8_t>(highest[i]), next);
    from = next;
  }
}

// The non-ASCII part of a set is a rule, so that repetitions do not copy its many states.
void TextChars::one_of(const CharSet& set, StateId from, StateId to) {
  if (set.ranges().empty()) {
    grammar_.state();  // counts as a part: otherwise repetitions of an empty set would never be too
                       // large
    return;
  }
  for (const auto& [first, last] : set.ranges())
    if (first <= 0x7F)
      grammar_.bytes(from, static_cast<uint8_t>(first),
                     static_cast<uint8_t>(std::min<uint32_t>(last, 0x7F)), to);
  if (set.ranges().back().second <= 0x7F) return;
  const auto [found, is_new] = not_ascii_.try_emplace(set);
  if (is_new) {
    found->second = grammar_.rule();
    const StateId start = grammar_.start(found->second), end = grammar_.end(found->second);
    for (const auto& [first, last] : set.ranges())
      if (last > 0x7F) add_utf8(grammar_, {std::max<uint32_t>(first, 0x80), last}, start, end);
  }
  grammar_.call(from, found->second, to);
}

void StringChars::one_of(const CharSet& set, StateId from, StateId to) {
  const CharSet not_plain = set.without(plain_ascii());
  const CharSet plain = set.without(not_plain);
  for (const auto& [first, last] : plain.ranges())
    grammar_.bytes(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), to);
  if (not_plain.ranges().empty()) return;
  const auto [found, is_new] = not_plain_.try_emplace(not_plain);
  if (is_new) {
    found->second = grammar_.rule();
    const StateId start = grammar_.start(found->second), end = grammar_.end(found->second);
    for (const auto& [first, last] : not_plain.ranges()) {
      for (uint32_t code = first; code <= std::min<uint32_t>(last, 0x7F); ++code)
        grammar_.literal(start, escape_of(code), end);
      if (last >= 0x80) add_utf8(grammar_, {std::max<uint32_t>(first, 0x80), last}, start, end);
    }
  }
  grammar_.call(from, found->second, to);
}

void StringChars::any(StateId from, StateId to) {
  for (const auto& [first, last] : plain_ascii().ranges())
    grammar_.bytes(from, static_cast<uint8_t>(first), static_cast<uint8_t>(last), to);
  if (!any_) {
    any_ = grammar_.rule();
    add_utf8(grammar_, {0x80, 0xD7FF}, grammar_.start(*any_), grammar_.end(*any_));
    add_utf8(grammar_, {0xE000, CharSet::kLast}, grammar_.start(*any_), grammar_.end(*any_));
    escape(grammar_.start(*any_), grammar_.end(*any_));
  }
  grammar_.call(from, *any_, to);
}

void StringChars::escape(StateId from, StateId to) {
  const StateId kind = grammar_.state();
  grammar_.byte(from, '\\', kind);
  grammar_.any_of(kind, "\"\\/bfnrt", to);
  const StateId digits = grammar_.state();
  grammar_.byte(kind, 'u', digits);
  unicode_escape(digits, to);
}

// After \u: four digits; if they are a high surrogate, the escape of the low surrogate must follow.
void StringChars::unicode_escape(StateId from, StateId to) {
  const StateId others = grammar_.state(), d = grammar_.state();
  grammar_.any_of(from, "0123456789abcefABCEF", others);
  hex_digits(3, others, to);
  grammar_.any_of(from, "dD", d);
  const StateId below_surrogates = grammar_.state(), high = grammar_.state();
  grammar_.any_of(d, "01234567", below_surrogates);
  hex_digits(2, below_surrogates, to);
  grammar_.any_of(d, "89abAB", high);
  const StateId second = grammar_.state(), low = grammar_.state(), rest = grammar_.state();
  hex_digits(2, high, second);
  const StateId low_d = grammar_.state();
  grammar_.literal(second, "\\u", low);
  grammar_.any_of(low, "dD", low_d);
  grammar_.any_of(low_d, "cdefCDEF", rest);
  hex_digits(2, rest, to);
}

void StringChars::hex_digits(uint32_t count, StateId from, StateId to) {
  for (; count > 1; --count) {
    const StateId next = grammar_.state();
    grammar_.any_of(from, kHex, next);
    from = next;
  }
  grammar_.any_of(from, kHex, to);
}

}  // namespace kvick::text
