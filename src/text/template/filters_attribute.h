#pragma once
// The meaning of the filters' attribute= arguments.

#include <string_view>
#include <vector>

#include "text/template/eval.h"

namespace kvick::text::jinja {

// A path such as "a.b.0": attributes or items, looked up one after the other; an integer is an
// index. An empty path is the value itself.
class AttributePath {
 public:
  AttributePath() = default;
  explicit AttributePath(const Value& attribute);  // a string or an integer
  explicit AttributePath(std::string_view path);
  // fallback: replaces an undefined result at each part; may be null.
  Value of(Evaluator& evaluator, const Value& value, const Value* fallback = nullptr) const;

 private:
  struct Part {
    std::string_view name;
    int64_t index;
    bool is_index;
  };
  std::vector<Part> parts_;
};

// Returns text in lower case, and any other value unchanged.
Value without_case(Evaluator& evaluator, const Value& value);

}  // namespace kvick::text::jinja
