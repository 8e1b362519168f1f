#pragma once
// Checks how deep a JSON text is nested, before it is parsed. nlohmann's ordered objects copy their
// values when they grow, and print them, with functions that recurse once per level. A deeply
// nested text of half a megabyte would overflow the stack.

#include <cstddef>
#include <string_view>

namespace kvick::base {

// Returns whether lists and objects are nested more than `most` deep. For a text that is not JSON,
// the result is right only for the part before the first error.
inline bool is_nested_deeper(std::string_view json, size_t most) {
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"')
      in_string = !in_string;
    else if (in_string)
      i += c == '\\' ? 1 : 0;
    else if ((c == '[' || c == '{') && ++depth > most)
      return true;
    else if ((c == ']' || c == '}') && depth > 0)
      --depth;
  }
  return false;
}

}  // namespace kvick::base
