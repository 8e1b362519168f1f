// Methods of str.
#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {
namespace {

// The object of a method. The result is markup if the object is.
class Self {
 public:
  Self(Evaluator& evaluator, const Value& self) : evaluator_(evaluator), self_(self) {
    evaluator.heap().scan(self.text().size());
  }
  std::string_view text() const { return self_.text(); }
  Value give(std::string_view s) const { return evaluator_.string(std::string(s), markup()); }
  bool markup() const { return self_.str().markup; }
  // Returns the argument, escaped if the object is markup and the argument is not.
  std::string argument(const Value& value) const {
    if (!value.is(Kind::kString)) fail("a method of str needs a string, not {}", type_name(value));
    return markup() && !value.str().markup ? html_escape(value.text()) : std::string(value.text());
  }

 private:
  Evaluator& evaluator_;
  const Value& self_;
};

template <Side kSide>
Value strip_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("strip", arguments, {"self", "chars"}, 1);
  Self self(evaluator, bound[0]);
  std::optional<std::string_view> chars;
  if (!bound.missing(1)) chars = bound.string(1, "");
  return self.give(strip(self.text(), chars, kSide));
}

template <std::string (*kChange)(std::string_view)>
Value changed(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the method", arguments, {"self"}, 1);
  Self self(evaluator, bound[0]);
  return self.give(kChange(self.text()));
}

Value give_list(Evaluator& evaluator, const Self& self, const Pieces& pieces) {
  evaluator.heap().expect(pieces.size() * (sizeof(Value) + Object::kOverhead));
  Values items;
  for (std::string_view piece : pieces) items.push_back(self.give(piece));
  return make_list(evaluator.heap(), std::move(items));
}

template <bool kFromRight>
Value split_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("split", arguments, {"self", "sep", "maxsplit"}, 1);
  Self self(evaluator, bound[0]);
  std::optional<std::string_view> separator;
  if (!bound.missing(1)) {
    separator = bound.string(1, "");
    if (separator->empty()) fail("split() needs a separator that is not empty");
  }
  return give_list(evaluator, self,
                   split(self.text(), separator, bound.integer(2, -1), kFromRight));
}

Value split_lines_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("splitlines", arguments, {"self"}, 1);
  Self self(evaluator, bound[0]);
  return give_list(evaluator, self, split_lines(self.text()));
}

template <bool kFromRight>
Value partition(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("partition", arguments, {"self", "sep"}, 2);
  Self self(evaluator, bound[0]);
  std::string_view separator = bound.string(1, "");
  if (separator.empty()) fail("partition() needs a separator that is not empty");
  Pieces pieces = split(self.text(), separator, 1, kFromRight);
  if (pieces.size() == 2)
    pieces.insert(pieces.begin() + 1, separator);
  else
    pieces.insert(kFromRight ? pieces.begin() : pieces.end(), 2, std::string_view());
  Values items;
  for (std::string_view piece : pieces) items.push_back(self.give(piece));
  return make_tuple(evaluator.heap(), std::move(items));
}

template <bool kAtStart>
Value has_affix(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound(kAtStart ? "startswith" : "endswith", arguments, {"self", "affix"}, 2);
  Self self(evaluator, bound[0]);
  auto fits = [&](const Value& affix) {
    if (affix.is(Kind::kUndefined)) fail_undefined(affix);
    if (!affix.is(Kind::kString))
      fail("startswith() and endswith() need a string, not {}", type_name(affix));
    return kAtStart ? self.text().starts_with(affix.text()) : self.text().ends_with(affix.text());
  };
  if (!bound[1].is(Kind::kSequence) || bound[1].sequence().flavour != Flavour::kTuple)
    return Value::boolean(fits(bound[1]));
  bool any = false;
  for (const Value& affix : bound[1].sequence().items) any = any || fits(affix);
  return Value::boolean(any);
}

template <bool kAtStart>
Value remove_affix(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound(kAtStart ? "removeprefix" : "removesuffix", arguments, {"self", "affix"}, 2);
  Self self(evaluator, bound[0]);
  std::string_view affix = bound.string(1, ""), text = self.text();
  const bool fits = kAtStart ? text.starts_with(affix) : text.ends_with(affix);
  if (!fits) return self.give(text);
  return self.give(kAtStart ? text.substr(affix.size())
                            : text.substr(0, text.size() - affix.size()));
}

Value replace_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("replace", arguments, {"self", "old", "new", "count"}, 3);
  Self self(evaluator, bound[0]);
  const std::string from(bound.string(1, "")), to = self.argument(bound[2]);
  evaluator.heap().expect(self.text().size() + count_occurrences(self.text(), from) * to.size());
  return self.give(replace(self.text(), from, to, bound.integer(3, -1)));
}

// Returns the byte offset of `part` at or after code point `start`; npos if it is not found.
size_t find_part(Evaluator& evaluator, const Bound& bound, bool from_right) {
  std::string_view text = bound[0].text(), part = bound.string(1, "");
  evaluator.heap().scan(text.size() + part.size());
  int64_t start = bound.missing(2) ? 0 : bound.integer(2, 0);
  const auto size = static_cast<int64_t>(bound[0].str().length());
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  if (start > size) return std::string_view::npos;
  const size_t begin = byte_offset(text, static_cast<size_t>(start));
  if (!from_right) return find(text, part, begin);
  Pieces pieces = part.empty() ? Pieces{text, ""} : split(text.substr(begin), part, 1, true);
  return pieces.size() < 2 ? std::string_view::npos
                           : static_cast<size_t>(pieces[0].data() + pieces[0].size() - text.data());
}

template <bool kFromRight, bool kMust>
Value find_method_of(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("find", arguments, {"self", "sub", "start"}, 2);
  const size_t at = find_part(evaluator, bound, kFromRight);
  if (at != std::string_view::npos)
    return Value::integer(static_cast<int64_t>(count_code_points(bound[0].text().substr(0, at))));
  if (kMust) fail("index() finds no {} in the string", repr(bound[1], evaluator.heap()));
  return Value::integer(-1);
}

Value count_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("count", arguments, {"self", "sub"}, 2);
  Self self(evaluator, bound[0]);
  return Value::integer(static_cast<int64_t>(count_occurrences(self.text(), bound.string(1, ""))));
}

Value join_method(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("join", arguments, {"self", "iterable"}, 2);
  Self self(evaluator, bound[0]);
  std::string out;
  bool begun = false;
  for (const Value& item : items_of(bound[1], evaluator.heap())) {
    std::string piece = self.argument(item);
    evaluator.heap().scan(piece.size() + self.text().size());
    evaluator.heap().expect(out.size() + piece.size() + self.text().size());
    if (begun) out += self.text();
    out += piece;
    begun = true;
  }
  return self.give(out);
}

template <bool (*kTest)(char32_t)>
Value all_are(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the method", arguments, {"self"}, 1);
  Self self(evaluator, bound[0]);
  bool all = !self.text().empty();
  for (size_t at = 0; at < self.text().size() && all;)
    all = kTest(next_code_point(self.text(), at));
  return Value::boolean(all);
}

bool is_alnum(char32_t c) { return c != '_' && is_word(c); }

template <bool kLower>
Value cased(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the method", arguments, {"self"}, 1);
  Self self(evaluator, bound[0]);
  return Value::boolean(has_only_case(self.text(), kLower));
}

enum class Pad { kLeft, kRight, kZero };

template <Pad kPad>
Value pad(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the method", arguments, {"self", "width", "fillchar"}, 2);
  Self self(evaluator, bound[0]);
  const int64_t missing = bound.integer(1, 0) - static_cast<int64_t>(bound[0].str().length());
  std::string_view fill = kPad == Pad::kZero ? "0" : bound.string(2, " ");
  if (count_code_points(fill) != 1) fail("the fill character must be one character");
  if (missing <= 0) return self.give(self.text());
  evaluator.heap().expect(static_cast<size_t>(missing) * fill.size());
  std::string filling;
  for (int64_t i = 0; i < missing; ++i) filling += fill;
  std::string out(self.text());
  if (kPad == Pad::kLeft) return self.give(out + filling);
  const bool sign = kPad == Pad::kZero && !out.empty() && (out[0] == '-' || out[0] == '+');
  return self.give(out.insert(sign ? 1 : 0, filling));
}

// Returns the value of a field of format(). automatic: index of the positional argument that the
// next {} takes.
const Value& field_value(const CallArguments& arguments, std::string_view name, size_t& automatic) {
  if (name.find_first_of(":!.[") != std::string_view::npos)
    fail("the field {{{}}} of format() is not supported, only {{}}, {{0}} and {{name}}", name);
  for (const auto& named : arguments.named)
    if (named.first == name) return named.second;
  size_t index = SIZE_MAX;
  if (name.empty())
    index = automatic++;
  else if (name.size() < 5 && name.find_first_not_of("0123456789") == std::string_view::npos)
    index = std::stoul(std::string(name)) + 1;
  if (index >= arguments.positional.size())
    fail("format() is given no value for the field {{{}}}", name);
  return arguments.positional[index];
}

// Supports {} {0} {name}, {{ and }}. Format specifications would be a language of their own.
Value format_method(Evaluator& evaluator, const CallArguments& arguments) {
  Self self(evaluator, arguments.positional[0]);
  std::string_view format = self.text();
  std::string out;
  size_t automatic = 1;
  for (size_t at = 0; at < format.size(); ++at) {
    const char c = format[at];
    const bool brace = c == '{' || c == '}';
    if (!brace || (at + 1 < format.size() && format[at + 1] == c)) {
      out += c;
      at += brace ? 1 : 0;
      continue;
    }
    const size_t end = format.find('}', at);
    if (c == '}' || end == std::string_view::npos)
      fail("a brace in the format '{}' has no partner", format);
    std::string_view name = format.substr(at + 1, end - at - 1);
    std::string piece = evaluator.text_of(field_value(arguments, name, automatic));
    evaluator.heap().scan(piece.size());
    evaluator.heap().expect(out.size() + piece.size());
    out += piece;
    at = end;
  }
  return self.give(out);
}

constexpr FunctionRow kMethods[] = {
    {"strip", strip_method<Side::kBoth>},
    {"lstrip", strip_method<Side::kLeft>},
    {"rstrip", strip_method<Side::kRight>},
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"title", changed<title_method>},
    {"capitalize", changed<capitalize>},
    {"split", split_method<false>},
    {"rsplit", split_method<true>},
    {"splitlines", split_lines_method},
    {"partition", partition<false>},
    {"rpartition", partition<true>},
    {"startswith", has_affix<true>},
    {"endswith", has_affix<false>},
    {"removeprefix", remove_affix<true>},
    {"removesuffix", remove_affix<false>},
    {"replace", replace_method},
    {"find", find_method_of<false, false>},
    {"rfind", find_method_of<true, false>},
    {"index", find_method_of<false, true>},
    {"rindex", find_method_of<true, true>},
    {"count", count_method},
    {"join", join_method},
    {"isalpha", all_are<is_alpha>},
    {"isdigit", all_are<is_digit>},
    {"isnumeric", all_are<is_digit>},
    {"isalnum", all_are<is_alnum>},
    {"isspace", all_are<is_space>},
    {"islower", cased<true>},
    {"isupper", cased<false>},
    {"ljust", pad<Pad::kLeft>},
    {"rjust", pad<Pad::kRight>},
    {"zfill", pad<Pad::kZero>},
    {"format", format_method},
};

}  // namespace

std::span<const FunctionRow> string_methods() { return kMethods; }

}  // namespace kvick::text::jinja
