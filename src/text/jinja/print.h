#pragma once
// Values as text: Python's str(), repr(), json.dumps() and printf-style formatting.

#include <string>
#include <string_view>

#include "text/jinja/value.h"

namespace kvick::text::jinja {

std::string to_text(const Value& value, Heap& heap);  // str(value)
std::string repr(const Value& value, Heap& heap);
std::string repr_double(double d);

struct JsonOptions {
  bool ascii = false;  // ensure_ascii
  bool sort_keys = false;
  bool pretty = false;      // indent was given: one element a line,
  std::string indentation;  // each level preceded by this
  std::string comma = ", ", colon = ": ";
};
std::string to_json(const Value& value, const JsonOptions& options, Heap& heap);

// format % arguments; a tuple holds several, a dict the named ones.
std::string percent_format(std::string_view format, const Value& arguments, Heap& heap);

}  // namespace kvick::text::jinja
