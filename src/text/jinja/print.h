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
  bool pretty = false;      // indent was given: one element per line
  std::string indentation;  // before each line, once per level
  std::string comma = ", ", colon = ": ";
};
std::string to_json(const Value& value, const JsonOptions& options, Heap& heap);

// Returns format % arguments: several arguments are a tuple, named ones a dict.
std::string percent_format(std::string_view format, const Value& arguments, Heap& heap);

}  // namespace kvick::text::jinja
