// Filters that return one value: defaults, attributes, numbers, JSON.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "base/json_depth.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {
namespace {

Value default_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|default", arguments, {"value", "default_value", "boolean"}, 1);
  const bool missing = bound[0].is(Kind::kUndefined) || (bound.flag(2, false) && !truthy(bound[0]));
  if (!missing) return bound[0];
  return bound.given(1) ? bound[1] : evaluator.string("");
}

Value length_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|length", arguments, {"value"}, 1);
  if (bound[0].is(Kind::kLoop)) return Value::integer(evaluator.loop_length(*bound[0].as<Loop>()));
  if (auto size = length(bound[0])) return Value::integer(*size);
  fail("a {} has no length", type_name(bound[0]));
}

// "1_000" -> "1000", as int() and float() accept; nullopt if an underscore is not between two
// digits.
std::optional<std::string> without_underscores(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const bool between = i > 0 && i + 1 < s.size() &&
                         std::isxdigit(static_cast<unsigned char>(s[i - 1])) &&
                         std::isxdigit(static_cast<unsigned char>(s[i + 1]));
    if (s[i] != '_')
      out += s[i];
    else if (!between)
      return std::nullopt;
  }
  return out;
}

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  auto digits = without_underscores(strip(text, {}, Side::kBoth));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view s = *digits;
  const bool minus = s[0] == '-';
  if (minus || s[0] == '+') s.remove_prefix(1);
  const char prefix = s.size() > 1 && s[0] == '0' ? static_cast<char>(s[1] | 32) : '\0';
  if ((base == 16 && prefix == 'x') || (base == 8 && prefix == 'o') || (base == 2 && prefix == 'b'))
    s.remove_prefix(2);
  if (s.empty() || s[0] == '-' || s[0] == '+') return std::nullopt;
  std::string signed_digits(minus ? 1 : 0, '-');
  signed_digits += s;
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  auto [stopped, problem] =
      std::from_chars(signed_digits.data(), end, value, static_cast<int>(base));
  if (stopped != end) return std::nullopt;
  if (problem == std::errc::result_out_of_range)
    fail("the number {} does not fit into 64 bits", text);
  return problem == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<double> parse_double(std::string_view text) {
  auto digits = without_underscores(strip(text, {}, Side::kBoth));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view s = *digits;
  if (s[0] == '+') s.remove_prefix(1);
  if (s.empty() || s[0] == '+') return std::nullopt;
  const size_t first = s[0] == '-' ? 1 : 0;
  // from_chars also accepts nan(...), which Python does not.
  const std::string word = to_lower(s.substr(first));
  const bool named = word == "nan" || word == "inf" || word == "infinity";
  if (!named && word.find_first_not_of("0123456789.e+-") != std::string::npos) return std::nullopt;
  double value = 0;
  auto [stopped, problem] = std::from_chars(s.data(), s.data() + s.size(), value);
  if (stopped != s.data() + s.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range)
    return std::strtod(std::string(s).c_str(), nullptr);
  return problem == std::errc() ? std::optional(value) : std::nullopt;
}

Value truncated(double d, const Value& fallback) {
  if (!std::isfinite(d)) return fallback;
  if (!(std::abs(d) < 0x1p63)) fail("the number {} does not fit into 64 bits", repr_double(d));
  return Value::integer(static_cast<int64_t>(d));
}

Value int_filter(Evaluator&, const CallArguments& arguments) {
  Bound bound("|int", arguments, {"value", "default", "base"}, 1);
  const Value& value = bound[0];
  Value fallback = bound.given(1) ? bound[1] : Value::integer(0);
  const int64_t base = bound.integer(2, 10);
  if (base < 2 || base > 36) fail("|int takes a base from 2 to 36, not {}", base);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is(Kind::kFloat)) return truncated(value.as_double(), fallback);
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  if (!value.is(Kind::kString)) return fallback;
  if (auto whole = parse_integer(value.text(), base)) return Value::integer(*whole);
  auto real = parse_double(value.text());
  return real ? truncated(*real, fallback) : fallback;
}

Value float_filter(Evaluator&, const CallArguments& arguments) {
  Bound bound("|float", arguments, {"value", "default"}, 1);
  if (bound[0].is_number()) return Value::real(bound[0].as_double());
  if (bound[0].is(Kind::kUndefined)) fail_undefined(bound[0]);
  std::optional<double> parsed;
  if (bound[0].is(Kind::kString)) parsed = parse_double(bound[0].text());
  if (parsed) return Value::real(*parsed);
  return bound.given(1) ? bound[1] : Value::real(0);
}

Value abs_filter(Evaluator&, const CallArguments& arguments) {
  Bound bound("|abs", arguments, {"x"}, 1);
  if (bound[0].is(Kind::kFloat)) return Value::real(std::abs(bound[0].as_double()));
  if (bound[0].is(Kind::kUndefined)) fail_undefined(bound[0]);
  if (!bound[0].is_integral()) fail("|abs does not work on {}", type_name(bound[0]));
  return bound[0].as_int() < 0 ? negate(bound[0]) : Value::integer(bound[0].as_int());
}

// Rounds half to even, from the exact binary value, as Python's round() does.
double round_common(double d, int64_t precision) {
  if (!std::isfinite(d) || precision > 300) return d;
  if (precision >= 0) return *parse_double(fmt::format("{:.{}f}", d, precision));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::isinf(unit) ? 0 : std::nearbyint(d / unit) * unit;
}

Value round_filter(Evaluator&, const CallArguments& arguments) {
  Bound bound("|round", arguments, {"value", "precision", "method"}, 1);
  const Value& value = bound[0];
  const int64_t precision = bound.integer(1, 0);
  const std::string_view method = bound.string(2, "common");
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  if (!value.is_number()) fail("|round does not work on {}", type_name(value));
  if (method == "common") {
    if (value.is(Kind::kFloat)) return Value::real(round_common(value.as_double(), precision));
    if (precision >= 0) return Value::integer(value.as_int());
    return truncated(round_common(value.as_double(), precision), value);
  }
  if (method != "ceil" && method != "floor")
    fail("|round's method must be common, ceil or floor, not {}", method);
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.as_double() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value file_size_format(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|filesizeformat", arguments, {"value", "binary"}, 1);
  const Value& value = bound[0];
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  std::optional<double> bytes;
  if (value.is_number()) bytes = value.as_double();
  if (value.is(Kind::kString)) bytes = parse_double(value.text());
  if (!bytes) fail("|filesizeformat needs a number, not {}", type_name(value));
  const bool is_binary = bound.flag(1, false);
  const double base = is_binary ? 1024 : 1000;
  if (*bytes == 1) return evaluator.string("1 Byte");
  if (*bytes < base) {
    if (std::isinf(*bytes)) fail("|filesizeformat needs a finite number");
    return evaluator.string(fmt::format("{:.0f} Bytes", std::trunc(*bytes) + 0.0));
  }
  static constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kUnits.size() && !(*bytes < unit); ++i) unit *= base;
  const char letter = is_binary && i == 0 ? 'K' : kUnits[i];
  return evaluator.string(
      fmt::format("{:.1f} {}{}B", base * *bytes / unit, letter, is_binary ? "i" : ""));
}

// Unlike a.b, it does not find a dict's entries.
Value attr(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|attr", arguments, {"obj", "name"}, 2);
  const std::string_view name = bound.string(1, "");
  if (bound[0].is(Kind::kDict)) {
    const Method method = find_method(bound[0], name);
    if (!method.function && !method.unsafe && !method.unsupported)
      return make_undefined(evaluator.heap(),
                            fmt::format("'dict object' has no attribute '{}'", name));
  }
  return evaluator.attribute(bound[0], name);
}

Value tojson(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|tojson", arguments, {"x", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonOptions options;
  options.ascii = bound.flag(1, false);
  options.sort_keys = bound.flag(4, false);
  if (!bound.missing(2)) {
    options.pretty = true;
    options.comma.pop_back();  // Python omits the space at the ends of lines
    if (bound[2].is(Kind::kString)) {
      options.indentation = bound[2].text();
    } else {
      const int64_t width = bound.integer(2, 0);
      if (width > 100) fail("|tojson's indent of {} is above 100", width);
      options.indentation.assign(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
  }
  if (!bound.missing(3)) {
    Values pair = items_of(bound[3], evaluator.heap());
    if (pair.size() != 2 || !pair[0].is(Kind::kString) || !pair[1].is(Kind::kString))
      fail("|tojson's separators must be two strings");
    options.comma = pair[0].text();
    options.colon = pair[1].text();
  }
  return evaluator.string(to_json(bound[0], options, evaluator.heap()));
}

// Counts the memory of a JSON document while it is parsed and converted.
class JsonMemory {
 public:
  explicit JsonMemory(Heap& heap) : heap_(heap) {}
  ~JsonMemory() { heap_.give(bytes_); }
  JsonMemory(const JsonMemory&) = delete;
  JsonMemory& operator=(const JsonMemory&) = delete;

  // Called by the parser for each event; part: a value, or a member's name.
  void count(const nlohmann::ordered_json& part) {
    // A list that grows has room for up to twice its elements.
    size_t bytes = 2 * sizeof(part);
    if (part.is_string())
      bytes += 2 * sizeof(std::string) + part.get_ref<const std::string&>().size();
    heap_.take(bytes);
    bytes_ += bytes;
  }

 private:
  Heap& heap_;
  size_t bytes_ = 0;
};

// Not part of Jinja2. Templates written for llama.cpp use it, by two names: from_json (DeepSeek
// V3.2 and V4) and fromjson (Step 3.7).
Value from_json_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|from_json", arguments, {"text"}, 1);
  if (!bound[0].is(Kind::kString)) fail("|from_json takes a string, not a {}", type_name(bound[0]));
  if (base::is_nested_deeper(bound[0].text(), kMaxValueDepth + 1))
    fail("|from_json was given values that are nested more than {} deep", kMaxValueDepth);
  JsonMemory memory(evaluator.heap());
  const auto count = [&](int, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json& part) {
    memory.count(part);
    return true;
  };
  const auto json = nlohmann::ordered_json::parse(bound[0].text(), count, false);
  if (json.is_discarded()) fail("|from_json was given a string that is not JSON");
  return evaluator.from_json(json);
}

constexpr FunctionRow kFilters[] = {
    {"default", default_filter},
    {"d", default_filter},
    {"length", length_filter},
    {"count", length_filter},
    {"int", int_filter},
    {"float", float_filter},
    {"abs", abs_filter},
    {"round", round_filter},
    {"tojson", tojson},
    {"from_json", from_json_filter},
    {"fromjson", from_json_filter},
    {"attr", attr},
    {"filesizeformat", file_size_format},
};

}  // namespace

std::span<const FunctionRow> value_filters() { return kFilters; }

}  // namespace kvick::text::jinja
