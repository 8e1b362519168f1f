#include "text/grammar/char_classes.h"

namespace kvick::text {

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
    default:  // s: white space and line ends, in ECMA 262 beyond ASCII too
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
