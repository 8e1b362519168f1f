#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>

#include "text/jinja/print.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

[[noreturn]] void fail_operands(std::string_view op, const Value& a, const Value& b) {
  if (a.is(Kind::kUndefined)) fail_undefined(a);
  if (b.is(Kind::kUndefined)) fail_undefined(b);
  fail("{} does not work between {} and {}", op, type_name(a), type_name(b));
}

[[noreturn]] void fail_overflow() { fail("an integer does not fit into 64 bits"); }

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) fail("division by zero");
  if (b == -1) {
    if (a == INT64_MIN) fail_overflow();
    return -a;
  }
  return a / b - ((a % b != 0 && (a < 0) != (b < 0)) ? 1 : 0);
}

int64_t floor_modulo(int64_t a, int64_t b) {
  if (b == 0) fail("modulo by zero");
  if (b == -1) return 0;
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_modulo(double a, double b) {
  if (b == 0) fail("modulo by zero");
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

double float_floor_divide(double a, double b) {
  if (b == 0) fail("division by zero");
  double quotient = std::floor((a - float_modulo(a, b)) / b + 0.5);
  return quotient == 0 ? std::copysign(0.0, a / b) : quotient;
}

int64_t integer_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) fail_overflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) fail_overflow();
  }
  return result;
}

Value power(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral() && b.as_int() >= 0)
    return Value::integer(integer_power(a.as_int(), b.as_int()));
  double base = a.as_double(), exponent = b.as_double();
  if (base == 0 && exponent < 0) fail("zero cannot be raised to a negative power");
  double result = std::pow(base, exponent);
  if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent))
    fail("a negative number raised to a fraction is complex");
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent))
    fail("the result of ** is too large");
  return Value::real(result);
}

Value arithmetic(BinaryOp op, const Value& a, const Value& b) {
  if (op == BinaryOp::kPow) return power(a, b);
  if (op == BinaryOp::kDiv) {
    if (b.as_double() == 0) fail("division by zero");
    return Value::real(a.as_double() / b.as_double());
  }
  if (a.is_integral() && b.is_integral()) {
    int64_t x = a.as_int(), y = b.as_int(), result = 0;
    bool overflow = false;
    switch (op) {
      case BinaryOp::kAdd:
        overflow = __builtin_add_overflow(x, y, &result);
        break;
      case BinaryOp::kSub:
        overflow = __builtin_sub_overflow(x, y, &result);
        break;
      case BinaryOp::kMul:
        overflow = __builtin_mul_overflow(x, y, &result);
        break;
      case BinaryOp::kFloorDiv:
        result = floor_divide(x, y);
        break;
      default:
        result = floor_modulo(x, y);
        break;
    }
    if (overflow) fail_overflow();
    return Value::integer(result);
  }
  double x = a.as_double(), y = b.as_double();
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(x + y);
    case BinaryOp::kSub:
      return Value::real(x - y);
    case BinaryOp::kMul:
      return Value::real(x * y);
    case BinaryOp::kFloorDiv:
      return Value::real(float_floor_divide(x, y));
    default:
      return Value::real(float_modulo(x, y));
  }
}

Value join_strings(const Value& a, const Value& b, Heap& heap) {
  const bool markup = a.str().markup || b.str().markup;
  heap.expect(6 * (a.text().size() + b.text().size()));
  auto part = [&](const Value& v) {
    return markup && !v.str().markup ? html_escape(v.text()) : std::string(v.text());
  };
  return make_string(heap, part(a) + part(b), markup);
}

bool is_list_or_tuple(const Value& value) {
  return value.is(Kind::kSequence) && value.sequence().flavour <= Flavour::kTuple;
}

Value repeat(const Value& value, int64_t count, Heap& heap) {
  const size_t unit =
      value.is(Kind::kString) ? value.text().size() : value.sequence().items.size() * sizeof(Value);
  const size_t times = count > 0 ? static_cast<size_t>(count) : 0;
  size_t bytes;
  if (__builtin_mul_overflow(unit, times, &bytes)) bytes = SIZE_MAX;
  heap.expect(bytes);
  heap.scan(bytes);
  if (value.is(Kind::kString)) {
    std::string text(value.text());
    text.reserve(bytes);
    // Doubles the text each time, so that repeating one letter a million times takes twenty copies.
    while (text.size() < bytes) text.append(text, 0, bytes - text.size());
    text.resize(bytes);
    return make_string(heap, std::move(text), value.str().markup);
  }
  Values items;
  const Values& once = value.sequence().items;
  for (size_t i = 0; i < times && unit > 0; ++i)
    items.insert(items.end(), once.begin(), once.end());
  return make_sequence(heap, value.sequence().flavour, std::move(items));
}

// Returns -1, 0 or 1; 2 for a NaN. Integers beyond 2^53 are compared with floats exactly, as in
// Python.
int order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral())
    return (a.as_int() > b.as_int()) - (a.as_int() < b.as_int());
  if (a.is(Kind::kFloat) && b.is(Kind::kFloat)) {
    double x = a.as_double(), y = b.as_double();
    return std::isnan(x) || std::isnan(y) ? 2 : (x > y) - (x < y);
  }
  if (a.is(Kind::kFloat)) {
    int reversed = order_numbers(b, a);
    return reversed == 2 ? 2 : -reversed;
  }
  double y = b.as_double();
  if (std::isnan(y)) return 2;
  if (y >= 0x1p63) return -1;
  if (y < -0x1p63) return 1;
  auto whole = static_cast<int64_t>(y);
  if (a.as_int() != whole) return a.as_int() > whole ? 1 : -1;
  double fraction = y - static_cast<double>(whole);
  return (fraction < 0) - (fraction > 0);
}

bool equal_dicts(const Dict& a, const Dict& b, Heap& heap) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const Entry& entry : a.entries) {
    const Value* other = b.find(entry.first, heap);
    if (!other || !equal(entry.second, *other, heap)) return false;
  }
  return true;
}

// Returns a < b of two sequences: the first difference decides.
bool less_items(const Values& a, const Values& b, Heap& heap) {
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    if (!equal(a[i], b[i], heap)) return less(a[i], b[i], heap);
  return a.size() < b.size();
}

bool ordered(CompareOp op, const Value& a, const Value& b, Heap& heap) {
  static constexpr std::string_view kNames[] = {"==", "!=", "<", "<=", ">", ">="};
  heap.work(1);
  int order;
  if (a.is_number() && b.is_number()) {
    order = order_numbers(a, b);
    if (order == 2) return false;
  } else if (a.is(Kind::kString) && b.is(Kind::kString)) {
    // Byte order of UTF-8 is code point order.
    int bytes = a.text().compare(b.text());
    heap.scan(std::min(a.text().size(), b.text().size()));
    order = (bytes > 0) - (bytes < 0);
  } else if (is_list_or_tuple(a) && is_list_or_tuple(b) &&
             a.sequence().flavour == b.sequence().flavour) {
    const Values &x = a.sequence().items, &y = b.sequence().items;
    order = less_items(x, y, heap) ? -1 : (less_items(y, x, heap) ? 1 : 0);
  } else {
    fail_operands(kNames[static_cast<size_t>(op)], a, b);
  }
  switch (op) {
    case CompareOp::kLt:
      return order < 0;
    case CompareOp::kLe:
      return order <= 0;
    case CompareOp::kGt:
      return order > 0;
    default:
      return order >= 0;
  }
}

bool equal_sequences(const Sequence& a, const Sequence& b, Heap& heap) {
  if (&a == &b) return true;
  if (a.flavour != b.flavour || a.flavour == Flavour::kGenerator) return false;
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i)
    if (!equal(a.items[i], b.items[i], heap)) return false;
  return true;
}

}  // namespace

Value binary(BinaryOp op, const Value& a, const Value& b, Heap& heap) {
  if (a.is_number() && b.is_number()) return arithmetic(op, a, b);
  if (op == BinaryOp::kAdd && a.is(Kind::kString) && b.is(Kind::kString))
    return join_strings(a, b, heap);
  if (op == BinaryOp::kAdd && is_list_or_tuple(a) && is_list_or_tuple(b) &&
      a.sequence().flavour == b.sequence().flavour) {
    const Values &x = a.sequence().items, &y = b.sequence().items;
    heap.expect((x.size() + y.size()) * sizeof(Value));
    Values items = x;
    items.insert(items.end(), y.begin(), y.end());
    return make_sequence(heap, a.sequence().flavour, std::move(items));
  }
  if (op == BinaryOp::kMul && (a.is(Kind::kString) || is_list_or_tuple(a)) && b.is_integral())
    return repeat(a, b.as_int(), heap);
  if (op == BinaryOp::kMul && a.is_integral() && (b.is(Kind::kString) || is_list_or_tuple(b)))
    return repeat(b, a.as_int(), heap);
  if (op == BinaryOp::kMod && a.is(Kind::kString) && !b.is(Kind::kUndefined))
    return make_string(heap, percent_format(a.text(), b, heap), a.str().markup);
  fail_operands(kSymbols[static_cast<size_t>(op)], a, b);
}

Value negate(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::real(-value.as_double());
  if (!value.is_integral()) {
    if (value.is(Kind::kUndefined)) fail_undefined(value);
    fail("- does not work on {}", type_name(value));
  }
  if (value.as_int() == INT64_MIN) fail_overflow();
  return Value::integer(-value.as_int());
}

bool equal(const Value& a, const Value& b, Heap& heap) {
  heap.work(1);
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      heap.scan(std::min(a.text().size(), b.text().size()));
      return a.text() == b.text();
    case Kind::kSequence:
      return equal_sequences(a.sequence(), b.sequence(), heap);
    case Kind::kDict:
      return equal_dicts(a.dict(), b.dict(), heap);
    default:
      return a.object() == b.object();
  }
}

bool less(const Value& a, const Value& b, Heap& heap) {
  return ordered(CompareOp::kLt, a, b, heap);
}

bool contains(const Value& container, const Value& item, Heap& heap) {
  if (container.is(Kind::kString)) {
    if (item.is(Kind::kUndefined)) fail_undefined(item);
    if (!item.is(Kind::kString)) fail("a string cannot contain a {}", type_name(item));
    heap.scan(container.text().size() + item.text().size());
    return find(container.text(), item.text()) != std::string_view::npos;
  }
  if (container.is(Kind::kDict)) return container.dict().find(item, heap) != nullptr;
  for (const Value& candidate : items_of(container, heap))
    if (equal(candidate, item, heap)) return true;
  return false;
}

bool compare(CompareOp op, const Value& a, const Value& b, Heap& heap) {
  switch (op) {
    case CompareOp::kEq:
      return equal(a, b, heap);
    case CompareOp::kNe:
      return !equal(a, b, heap);
    case CompareOp::kIn:
      return contains(b, a, heap);
    case CompareOp::kNotIn:
      return !contains(b, a, heap);
    default:
      return ordered(op, a, b, heap);
  }
}

int64_t to_index(const Value& value, std::string_view what) {
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  if (!value.is_integral()) fail("{} must be an integer, not {}", what, type_name(value));
  return value.as_int();
}

}  // namespace kvick::text::jinja
