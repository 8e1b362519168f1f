#include "text/grammar/char_classes.h"

#include <map>
#include <string>
#include <utf8proc.h>

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

}  // namespace

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
