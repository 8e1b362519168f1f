// Filters that apply other filters and tests by name: map, select, reject, selectattr, rejectattr.
#include <charconv>

#include "text/jinja/operators.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"
#include "text/template/filters_attribute.h"

namespace kvick::text::jinja {

AttributePath::AttributePath(const Value& attribute) {
  if (attribute.is_integral()) {
    parts_.push_back({"", attribute.as_int(), true});
  } else {
    if (attribute.is(Kind::kUndefined)) fail_undefined(attribute);
    if (!attribute.is(Kind::kString))
      fail("an attribute= must be a string or an integer, not {}", type_name(attribute));
    *this = AttributePath(attribute.text());
  }
}

AttributePath::AttributePath(std::string_view path) {
  for (std::string_view name : split(path, ".", -1, false)) {
    Part part{name, 0, false};
    const char* end = name.data() + name.size();
    const bool digits =
        !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
    part.is_index = digits && std::from_chars(name.data(), end, part.index).ec == std::errc();
    parts_.push_back(part);
  }
}

Value AttributePath::of(Evaluator& evaluator, const Value& value, const Value* fallback) const {
  Value found = value;
  for (const Part& part : parts_) {
    evaluator.heap().work(1);
    Value key =
        part.is_index ? Value::integer(part.index) : evaluator.string(std::string(part.name));
    found = evaluator.item(found, key);
    if (fallback && found.is(Kind::kUndefined)) found = *fallback;
  }
  return found;
}

Value without_case(Evaluator& evaluator, const Value& value) {
  return value.is(Kind::kString) ? evaluator.string(to_lower(value.text())) : value;
}

namespace {

// Returns the arguments after the first `skip`, with an empty place for a value before them.
CallArguments rest_of(const CallArguments& arguments, size_t skip) {
  CallArguments rest;
  rest.positional.emplace_back();
  if (arguments.positional.size() > skip)
    rest.positional.insert(rest.positional.end(),
                           arguments.positional.begin() + static_cast<ptrdiff_t>(skip),
                           arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

std::string_view name_of(const Value& value, std::string_view what) {
  if (!value.is(Kind::kString)) fail("the name of a {} must be a string", what);
  return value.text();
}

Value map_attribute(Evaluator& evaluator, const CallArguments& arguments) {
  const Value *attribute = nullptr, *fallback = nullptr;
  for (const auto& [name, value] : arguments.named) {
    if (name == "attribute")
      attribute = &value;
    else if (name == "default")
      fallback = &value;
    else
      fail("|map takes no argument '{}'", name);
  }
  if (!attribute) fail("|map needs a filter's name or attribute=");
  // To Jinja2, a default of None means no default.
  if (fallback && fallback->is(Kind::kNone)) fallback = nullptr;
  AttributePath path(*attribute);
  Values results;
  for (const Value& value : items_of(arguments.positional[0], evaluator.heap()))
    results.push_back(path.of(evaluator, value, fallback));
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(results));
}

Value map(Evaluator& evaluator, const CallArguments& arguments) {
  if (arguments.positional.empty()) fail("|map lacks its value");
  if (!truthy(arguments.positional[0]))
    return make_sequence(evaluator.heap(), Flavour::kGenerator, {});
  if (arguments.positional.size() == 1) return map_attribute(evaluator, arguments);
  std::string_view name = name_of(arguments.positional[1], "filter");
  Function filter = find_filter(name);
  if (!filter) fail("the filter '{}' is not known", name);
  CallArguments inner = rest_of(arguments, 2);
  Values results;
  for (const Value& value : items_of(arguments.positional[0], evaluator.heap())) {
    evaluator.heap().work(1);
    inner.positional[0] = value;
    results.push_back(filter(evaluator, inner));
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(results));
}

// keep: the test result of the items to keep. by_attribute: the first argument names the attribute
// to test.
Value choose(Evaluator& evaluator, const CallArguments& arguments, bool keep, bool by_attribute) {
  const Values& given = arguments.positional;
  const size_t test_at = by_attribute ? 2 : 1;
  if (given.size() < test_at) fail("the filter lacks the name of an attribute");
  if (!truthy(given[0])) return make_sequence(evaluator.heap(), Flavour::kGenerator, {});
  AttributePath path = by_attribute ? AttributePath(given[1]) : AttributePath();
  TestFunction test = nullptr;
  if (given.size() > test_at) {
    std::string_view name = name_of(given[test_at], "test");
    test = find_test(name);
    if (!test) fail("the test '{}' is not known", name);
  }
  CallArguments inner = rest_of(arguments, test_at + 1);
  Values results;
  for (const Value& value : items_of(given[0], evaluator.heap())) {
    evaluator.heap().work(1);
    inner.positional[0] = path.of(evaluator, value);
    const bool passed = test ? test(evaluator, inner) : truthy(inner.positional[0]);
    if (passed == keep) results.push_back(value);
  }
  return make_sequence(evaluator.heap(), Flavour::kGenerator, std::move(results));
}

Value select(Evaluator& evaluator, const CallArguments& arguments) {
  return choose(evaluator, arguments, true, false);
}
Value reject(Evaluator& evaluator, const CallArguments& arguments) {
  return choose(evaluator, arguments, false, false);
}
Value selectattr(Evaluator& evaluator, const CallArguments& arguments) {
  return choose(evaluator, arguments, true, true);
}
Value rejectattr(Evaluator& evaluator, const CallArguments& arguments) {
  return choose(evaluator, arguments, false, true);
}

constexpr FunctionRow kFilters[] = {
    {"map", map},
    {"select", select},
    {"reject", reject},
    {"selectattr", selectattr},
    {"rejectattr", rejectattr},
};

}  // namespace

std::span<const FunctionRow> selection_filters() { return kFilters; }

}  // namespace kvick::text::jinja
