// Jinja2's tests: what follows `is`.
#include <unordered_map>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {
namespace {

const Value& only(const CallArguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    fail("the test takes no arguments");
  return arguments.positional[0];
}

const Value& other(const CallArguments& arguments) {
  if (arguments.positional.size() + arguments.named.size() != 2)
    fail("the test takes one argument");
  return arguments.named.empty() ? arguments.positional[1] : arguments.named[0].second;
}

template <Kind kKind>
bool is_kind(Evaluator&, const CallArguments& arguments) {
  return only(arguments).is(kKind);
}

bool defined(Evaluator&, const CallArguments& arguments) {
  return !only(arguments).is(Kind::kUndefined);
}
bool number(Evaluator&, const CallArguments& arguments) { return only(arguments).is_number(); }

template <bool kValue>
bool is_bool(Evaluator&, const CallArguments& arguments) {
  const Value& value = only(arguments);
  return value.is(Kind::kBool) && value.as_bool() == kValue;
}

bool sequence(Evaluator&, const CallArguments& arguments) {
  const Value& value = only(arguments);
  if (value.is(Kind::kSequence)) return value.sequence().flavour <= Flavour::kRange;
  return value.is(Kind::kString) || value.is(Kind::kDict) || value.is(Kind::kUndefined);
}

bool iterable(Evaluator&, const CallArguments& arguments) {
  const Value& value = only(arguments);
  return value.is(Kind::kSequence) || value.is(Kind::kString) || value.is(Kind::kDict) ||
         value.is(Kind::kUndefined) || value.is(Kind::kLoop);
}

bool callable(Evaluator&, const CallArguments& arguments) {
  const Kind kind = only(arguments).kind();
  return kind == Kind::kMacro || kind == Kind::kFunction || kind == Kind::kUndefined ||
         kind == Kind::kLoop;
}

bool remainder_is(Evaluator& evaluator, const Value& value, const Value& divisor, int64_t rest) {
  return equal(binary(BinaryOp::kMod, value, divisor, evaluator.heap()), Value::integer(rest),
               evaluator.heap());
}

bool odd(Evaluator& evaluator, const CallArguments& arguments) {
  return remainder_is(evaluator, only(arguments), Value::integer(2), 1);
}
bool even(Evaluator& evaluator, const CallArguments& arguments) {
  return remainder_is(evaluator, only(arguments), Value::integer(2), 0);
}
bool divisible_by(Evaluator& evaluator, const CallArguments& arguments) {
  return remainder_is(evaluator, arguments.positional[0], other(arguments), 0);
}

template <bool kLower>
bool cased(Evaluator& evaluator, const CallArguments& arguments) {
  return has_only_case(evaluator.text_of(only(arguments)), kLower);
}

template <CompareOp kOp>
bool compares(Evaluator& evaluator, const CallArguments& arguments) {
  const Value& operand = other(arguments);
  return compare(kOp, arguments.positional[0], operand, evaluator.heap());
}

bool same_as(Evaluator& evaluator, const CallArguments& arguments) {
  const Value &a = arguments.positional[0], &b = other(arguments);
  if (a.kind() != b.kind()) return false;
  return a.object() ? a.object() == b.object() : equal(a, b, evaluator.heap());
}

bool escaped(Evaluator&, const CallArguments& arguments) {
  const Value& value = only(arguments);
  return value.is(Kind::kString) && value.str().markup;
}

bool is_filter(Evaluator& evaluator, const CallArguments& arguments) {
  return find_filter(evaluator.text_of(only(arguments))) != nullptr;
}
bool is_test(Evaluator& evaluator, const CallArguments& arguments) {
  return find_test(evaluator.text_of(only(arguments))) != nullptr;
}

constexpr TestRow kTests[] = {
    {"defined", defined},
    {"undefined", is_kind<Kind::kUndefined>},
    {"none", is_kind<Kind::kNone>},
    {"boolean", is_kind<Kind::kBool>},
    {"true", is_bool<true>},
    {"false", is_bool<false>},
    {"integer", is_kind<Kind::kInt>},
    {"float", is_kind<Kind::kFloat>},
    {"number", number},
    {"string", is_kind<Kind::kString>},
    {"mapping", is_kind<Kind::kDict>},
    {"sequence", sequence},
    {"iterable", iterable},
    {"callable", callable},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisible_by},
    {"lower", cased<true>},
    {"upper", cased<false>},
    {"sameas", same_as},
    {"escaped", escaped},
    {"filter", is_filter},
    {"test", is_test},
    {"in", compares<CompareOp::kIn>},
    {"==", compares<CompareOp::kEq>},
    {"eq", compares<CompareOp::kEq>},
    {"equalto", compares<CompareOp::kEq>},
    {"!=", compares<CompareOp::kNe>},
    {"ne", compares<CompareOp::kNe>},
    {">", compares<CompareOp::kGt>},
    {"gt", compares<CompareOp::kGt>},
    {"greaterthan", compares<CompareOp::kGt>},
    {">=", compares<CompareOp::kGe>},
    {"ge", compares<CompareOp::kGe>},
    {"<", compares<CompareOp::kLt>},
    {"lt", compares<CompareOp::kLt>},
    {"lessthan", compares<CompareOp::kLt>},
    {"<=", compares<CompareOp::kLe>},
    {"le", compares<CompareOp::kLe>},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const TestRow& row : kTests)
    if (row.name == name) return row.function;
  return nullptr;
}

}  // namespace kvick::text::jinja
