#pragma once
// What the filters' attribute= arguments mean.

#include <string_view>
#include <vector>

#include "text/template/eval.h"

namespace kvick::text::jinja {

// "a.b.0": attributes or items, one after the other; an integer is an index. Without any, the value
// itself.
class AttributePath {
 public:
  AttributePath() = default;
  explicit AttributePath(const Value& attribute);  // a string or an integer
  explicit AttributePath(std::string_view path);
  // fallback: instead of undefined, at each part; may be null.
  Value of(Evaluator& evaluator, const Value& value, const Value* fallback = nullptr) const;

 private:
  struct Part {
    std::string_view name;
    int64_t index;
    bool is_index;
  };
  std::vector<Part> parts_;
};

// Text in lower case, anything else as it is.
Value without_case(Evaluator& evaluator, const Value& value);

}  // namespace kvick::text::jinja
