#pragma once
// Jinja2's filters, tests and global functions, and the methods of Python's str and dict, by name.
// Each is one row of a table. The parser looks names up, so that an unknown one is refused before
// anything runs, except in a branch, which may ask first whether it is known.

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace kvick::text::jinja {

class Evaluator;

// The arguments of a call. Filters and tests have their value first, methods their object.
struct CallArguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

using Function = Value (*)(Evaluator& evaluator, const CallArguments& arguments);
using TestFunction = bool (*)(Evaluator& evaluator, const CallArguments& arguments);

struct FunctionRow {
  std::string_view name;
  Function function;
};
struct TestRow {
  std::string_view name;
  TestFunction function;
};

// Return nullptr if there is none of that name.
Function find_filter(std::string_view name);
TestFunction find_test(std::string_view name);
Function find_global(std::string_view name);

// A method of a value, bound by the evaluator. unsafe: it exists but would change the value, which
// templates may not do. unsupported: Python has it but this interpreter does not.
struct Method {
  Function function = nullptr;
  bool unsafe = false, unsupported = false;
};
Method find_method(const Value& object, std::string_view name);

// The rows of the tables, one function per file.
std::span<const FunctionRow> text_filters();
std::span<const FunctionRow> sequence_filters();
std::span<const FunctionRow> selection_filters();
std::span<const FunctionRow> value_filters();

// Matches arguments to parameters as Python does; at(i) is nullptr if none was given.
class Bound {
 public:
  // required: how many of the first parameters must be given.
  Bound(std::string_view function, const CallArguments& arguments,
        std::initializer_list<std::string_view> parameters, size_t required);

  const Value* at(size_t i) const { return values_[i]; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  bool given(size_t i) const { return values_[i] != nullptr; }
  bool flag(size_t i, bool fallback) const;           // truthiness
  int64_t integer(size_t i, int64_t fallback) const;  // fails on anything else
  std::string_view string(size_t i, std::string_view fallback) const;
  // Returns whether the argument is absent or None.
  bool missing(size_t i) const { return !values_[i] || values_[i]->is(Kind::kNone); }

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

}  // namespace kvick::text::jinja
