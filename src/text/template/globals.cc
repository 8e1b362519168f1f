// The global functions of every template.
#include <array>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {
namespace {

// Jinja2's sandbox has the same limit.
constexpr uint64_t kMaxRange = 100'000;

uint64_t range_size(int64_t start, int64_t stop, int64_t step) {
  if (step > 0 ? start >= stop : start <= stop) return 0;
  const uint64_t span = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const uint64_t size = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  return (span - 1) / size + 1;
}

Value range(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("range()", arguments, {"start", "stop", "step"}, 1);
  const int64_t first = bound.integer(0, 0);
  const int64_t start = bound.given(1) ? first : 0, stop = bound.integer(1, first);
  const int64_t step = bound.integer(2, 1);
  if (step == 0) fail("range() needs a step that is not zero");
  const uint64_t size = range_size(start, stop, step);
  if (size > kMaxRange) fail("range() of {} numbers is above the limit of {}", size, kMaxRange);
  evaluator.heap().expect(size * sizeof(Value));
  Values items;
  for (uint64_t i = 0; i < size; ++i)
    items.push_back(Value::integer(start + static_cast<int64_t>(i) * step));
  std::string shown = step == 1 ? fmt::format("range({}, {})", start, stop)
                                : fmt::format("range({}, {}, {})", start, stop, step);
  return Value(Kind::kSequence,
               new Sequence(evaluator.heap(), Flavour::kRange, std::move(items), std::move(shown)));
}

// dict(mapping or pairs, name=value ...)
std::vector<Entry> entries_of(Evaluator& evaluator, const CallArguments& arguments) {
  std::vector<Entry> entries;
  if (arguments.positional.size() > 1) fail("dict() and namespace() take one positional argument");
  for (const Value& from : arguments.positional) {
    if (from.is(Kind::kDict)) {
      entries = from.dict().entries;
      continue;
    }
    for (const Value& pair : items_of(from, evaluator.heap())) {
      Values both = items_of(pair, evaluator.heap());
      if (both.size() != 2) fail("dict() and namespace() need pairs");
      entries.emplace_back(both[0], both[1]);
    }
  }
  evaluator.heap().scan(entries.size() * sizeof(Entry));
  for (const auto& [name, value] : arguments.named)
    entries.emplace_back(evaluator.string(name), value);
  return entries;
}

Value dict(Evaluator& evaluator, const CallArguments& arguments) {
  return make_dict(evaluator.heap(), entries_of(evaluator, arguments));
}

Value namespace_function(Evaluator& evaluator, const CallArguments& arguments) {
  Value unique = dict(evaluator, arguments);
  return evaluator.make_namespace(unique.dict().entries);
}

Value raise_exception(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("raise_exception()", arguments, {"message"}, 1);
  throw Failure{evaluator.text_of(bound[0])};
}

constexpr std::array<std::string_view, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                                   "Thursday", "Friday", "Saturday"};
constexpr std::array<std::string_view, 12> kMonths = {
    "January", "February", "March",     "April",   "May",      "June",
    "July",    "August",   "September", "October", "November", "December"};

// One conversion of strftime in the C locale; the C library's function would use the process's
// locale.
std::string time_part(const std::tm& t, char conversion) {
  const auto day = kDays[static_cast<size_t>(t.tm_wday) % 7];
  const auto month = kMonths[static_cast<size_t>(t.tm_mon) % 12];
  const int hour12 = (t.tm_hour + 11) % 12 + 1;
  switch (conversion) {
    case 'Y':
      return fmt::format("{}", t.tm_year + 1900);
    case 'y':
      return fmt::format("{:02}", t.tm_year % 100);
    case 'm':
      return fmt::format("{:02}", t.tm_mon + 1);
    case 'd':
      return fmt::format("{:02}", t.tm_mday);
    case 'e':
      return fmt::format("{:2}", t.tm_mday);
    case 'H':
      return fmt::format("{:02}", t.tm_hour);
    case 'I':
      return fmt::format("{:02}", hour12);
    case 'M':
      return fmt::format("{:02}", t.tm_min);
    case 'S':
      return fmt::format("{:02}", t.tm_sec);
    case 'j':
      return fmt::format("{:03}", t.tm_yday + 1);
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'A':
      return std::string(day);
    case 'a':
      return std::string(day.substr(0, 3));
    case 'B':
      return std::string(month);
    case 'b':
    case 'h':
      return std::string(month.substr(0, 3));
    case 'w':
      return fmt::format("{}", t.tm_wday);
    case 'F':
      return time_part(t, 'Y') + "-" + time_part(t, 'm') + "-" + time_part(t, 'd');
    case 'T':
      return time_part(t, 'H') + ":" + time_part(t, 'M') + ":" + time_part(t, 'S');
    case 'R':
      return time_part(t, 'H') + ":" + time_part(t, 'M');
    case 'D':
      return time_part(t, 'm') + "/" + time_part(t, 'd') + "/" + time_part(t, 'y');
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    default:
      fail("strftime_now() does not support %{}", conversion);
  }
}

Value strftime_now(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("strftime_now()", arguments, {"format"}, 1);
  std::string_view format = bound.string(0, "");
  const std::tm now = evaluator.options().now();
  evaluator.heap().expect(format.size() * 8);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    const bool unpadded = i + 1 < format.size() && format[i + 1] == '-';
    if (unpadded) ++i;
    if (++i >= format.size()) fail("the format of strftime_now() ends with %");
    std::string part = time_part(now, format[i]);
    const size_t first = unpadded ? std::min(part.find_first_not_of("0 "), part.size() - 1) : 0;
    out.append(part, first);
  }
  return evaluator.string(std::move(out));
}

constexpr FunctionRow kGlobals[] = {
    {"range", range},
    {"dict", dict},
    {"namespace", namespace_function},
    {"raise_exception", raise_exception},
    {"strftime_now", strftime_now},
};

}  // namespace

Function find_global(std::string_view name) {
  for (const FunctionRow& row : kGlobals)
    if (row.name == name) return row.function;
  return nullptr;
}

}  // namespace kvick::text::jinja
