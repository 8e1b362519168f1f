#include "text/grammar/char_classes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utf8proc.h>
#include <vector>

namespace kvick::text {
namespace {

using Categories = std::map<std::string, CharSet>;  // keyed by Unicode's two-letter names

const Categories& categories() {
  static const Categories kSets = [] {
    Categories sets;
    for (uint32_t first = 0, last = 0; first <= CharSet::kLast; first = last = last + 1) {
      const auto name_of = [](uint32_t code) -> std::string_view {
        return utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
      };
      while (last < CharSet::kLast && name_of(last + 1) == name_of(first)) ++last;
      if (name_of(first) != "Cs") sets[std::string(name_of(first))].add(first, last);
    }
    return sets;
  }();
  return kSets;
}

// Pairs of letters that differ only in case, in both orders, sorted.
using Cases = std::vector<std::pair<uint32_t, uint32_t>>;

const Cases& cases() {
  static const Cases kPairs = [] {
    std::map<uint32_t, std::vector<uint32_t>> letters;  // by their lower case
    for (uint32_t code = 0; code <= CharSet::kLast; ++code) {
      const auto upper = utf8proc_toupper(static_cast<utf8proc_int32_t>(code));
      const auto lower = static_cast<uint32_t>(utf8proc_tolower(upper));
      // The case of the Turkish i with and without a dot depends on the language.
      if (lower != code && code != 0x130 && code != 0x131) letters[lower].push_back(code);
    }
    Cases pairs;
    for (auto& [lower, others] : letters) {
      others.push_back(lower);
      for (const uint32_t one : others)
        for (const uint32_t other : others)
          if (one != other) pairs.emplace_back(one, other);
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }();
  return kPairs;
}

}  // namespace

CharSet with_other_cases(const CharSet& set, bool ascii) {
  std::vector<CharSet::Range> ranges = set.ranges();
  for (const auto& [first, last] : set.ranges()) {
    auto at = std::lower_bound(cases().begin(), cases().end(), std::pair(first, 0U));
    for (; at != cases().end() && at->first <= last; ++at)
      if (!ascii || std::max(at->first, at->second) < 0x80)
        ranges.emplace_back(at->second, at->second);
  }
  std::sort(ranges.begin(), ranges.end());
  CharSet out;
  for (size_t i = 0; i < ranges.size();) {
    auto [first, last] = ranges[i];
    // Joined here, because CharSet looks at all ranges where one touches another.
    for (++i; i < ranges.size() && ranges[i].first <= last + 1; ++i)
      last = std::max(last, ranges[i].second);
    out.add(first, last);
  }
  return out;
}

std::optional<CharSet> take_category(std::string_view& text) {
  if (!text.starts_with("p{") && !text.starts_with("P{")) return std::nullopt;
  const size_t end = text.find('}');
  if (end != 3 && end != 4) return std::nullopt;
  CharSet set;
  for (const auto& [name, characters] : categories())
    if (name.starts_with(text.substr(2, end - 2))) set.add(characters);
  if (set.ranges().empty()) return std::nullopt;
  if (text[0] == 'P') set = CharSet::all().without(set);
  text.remove_prefix(end + 1);
  return set;
}

CharSet class_of(char name, bool ascii) {
  CharSet set;
  switch (name | 0x20) {
    case 'd':
      set.add('0', '9');
      break;
    case 'w':
      set.add('0', '9');
      set.add('A', 'Z');
      set.add('_', '_');
      set.add('a', 'z');
      break;
    default:  // 's': white space and line ends; ECMA 262 includes those beyond ASCII
      for (const auto& [first, last] : {std::pair{9U, 13U},
                                        {32U, 32U},
                                        {0xA0U, 0xA0U},
                                        {0x1680U, 0x1680U},
                                        {0x2000U, 0x200AU},
                                        {0x2028U, 0x2029U},
                                        {0x202FU, 0x202FU},
                                        {0x205FU, 0x205FU},
                                        {0x3000U, 0x3000U},
                                        {0xFEFFU, 0xFEFFU}})
        if (!ascii || first <= 0x7F) set.add(first, last);
  }
  return (name & 0x20) != 0 ? set : CharSet::all().without(set);
}

CharSet any_but_line_ends(bool python) {
  CharSet ends;
  ends.add('\n', '\n');
  if (python) return CharSet::all().without(ends);
  ends.add('\r', '\r');
  ends.add(0x2028, 0x2029);
  return CharSet::all().without(ends);
}

}  // namespace kvick::text
