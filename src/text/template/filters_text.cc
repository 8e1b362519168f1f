// Filters that return text.
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {
namespace {

// Jinja2's soft_str: the text, and whether it is markup.
struct Soft {
  Soft(Evaluator& evaluator, const Value& value)
      : text(evaluator.text_of(value)), markup(value.is(Kind::kString) && value.str().markup) {
    evaluator.heap().scan(text.size());
  }
  std::string text;
  bool markup;
};

template <std::string (*kChange)(std::string_view)>
Value changed(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the filter", arguments, {"s"}, 1);
  Soft soft(evaluator, bound[0]);
  return evaluator.string(kChange(soft.text), soft.markup);
}

Value trim(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|trim", arguments, {"value", "chars"}, 1);
  Soft soft(evaluator, bound[0]);
  std::optional<std::string_view> chars;
  if (!bound.missing(1)) chars = bound.string(1, "");
  return evaluator.string(std::string(strip(soft.text, chars, Side::kBoth)), soft.markup);
}

Value replace_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|replace", arguments, {"s", "old", "new", "count"}, 3);
  std::string text = evaluator.text_of(bound[0]), from = evaluator.text_of(bound[1]),
              to = evaluator.text_of(bound[2]);
  int64_t limit = bound.missing(3) ? -1 : bound.integer(3, -1);
  evaluator.heap().expect(text.size() + count_occurrences(text, from) * to.size());
  evaluator.heap().scan(text.size());
  return evaluator.string(replace(text, from, to, limit));
}

Value indent(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|indent", arguments, {"s", "width", "first", "blank"}, 1);
  std::string text = std::string(bound.string(0, "")) + "\n";
  std::string margin;
  if (bound.given(1) && bound[1].is(Kind::kString)) {
    margin = bound[1].text();
  } else {
    int64_t width = bound.integer(1, 4);
    if (width > 1000) fail("|indent by {} is more than 1000", width);
    margin.assign(width > 0 ? static_cast<size_t>(width) : 0, ' ');
  }
  Pieces lines = split_lines(text);
  evaluator.heap().expect(text.size() + lines.size() * (margin.size() + 1));
  std::string out = bound.flag(2, false) ? margin : "";
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (bound.flag(3, false) || !lines[i].empty())) out += margin;
    out += lines[i];
  }
  return evaluator.string(std::move(out), bound[0].str().markup);
}

Value string_filter(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|string", arguments, {"s"}, 1);
  return bound[0].is(Kind::kString) ? bound[0] : evaluator.string(evaluator.text_of(bound[0]));
}

Value safe(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|safe", arguments, {"value"}, 1);
  return evaluator.string(evaluator.text_of(bound[0]), true);
}

Value escape(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|escape", arguments, {"value"}, 1);
  Soft soft(evaluator, bound[0]);
  evaluator.heap().expect(soft.text.size() * 6);
  return evaluator.string(soft.markup ? soft.text : html_escape(soft.text), true);
}

Value word_count(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|wordcount", arguments, {"s"}, 1);
  Soft soft(evaluator, bound[0]);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < soft.text.size();) {
    bool word = is_word(next_code_point(soft.text, at));
    words += word && !inside;
    inside = word;
  }
  return Value::integer(words);
}

Value format_filter(Evaluator& evaluator, const CallArguments& arguments) {
  if (arguments.positional.empty()) fail("|format lacks its value");
  Soft soft(evaluator, arguments.positional[0]);
  if (arguments.positional.size() > 1 && !arguments.named.empty())
    fail("|format takes positional or keyword arguments, not both");
  Value values;
  if (arguments.named.empty()) {
    values = make_tuple(evaluator.heap(),
                        Values(arguments.positional.begin() + 1, arguments.positional.end()));
  } else {
    std::vector<Entry> entries;
    for (const auto& [name, value] : arguments.named)
      entries.emplace_back(evaluator.string(name), value);
    values = make_dict(evaluator.heap(), entries);
  }
  return evaluator.string(percent_format(soft.text, values, evaluator.heap()), soft.markup);
}

Value center(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|center", arguments, {"value", "width"}, 1);
  Soft soft(evaluator, bound[0]);
  const auto length = static_cast<int64_t>(count_code_points(soft.text));
  const int64_t missing = bound.integer(1, 80) - length, width = length + missing;
  if (missing <= 0) return evaluator.string(soft.text, soft.markup);
  evaluator.heap().expect(static_cast<size_t>(missing));
  // If the padding is odd, str.center puts the extra space on the left when the width is odd.
  const auto left = static_cast<size_t>(missing / 2 + (missing & width & 1));
  std::string out = std::string(left, ' ') + soft.text;
  return evaluator.string(out.append(static_cast<size_t>(missing) - left, ' '), soft.markup);
}

constexpr FunctionRow kFilters[] = {
    {"upper", changed<to_upper>},
    {"lower", changed<to_lower>},
    {"capitalize", changed<capitalize>},
    {"title", changed<title_filter>},
    {"trim", trim},
    {"replace", replace_filter},
    {"indent", indent},
    {"string", string_filter},
    {"safe", safe},
    {"escape", escape},
    {"e", escape},
    {"wordcount", word_count},
    {"format", format_filter},
    {"center", center},
};

}  // namespace

std::span<const FunctionRow> text_filters() { return kFilters; }

}  // namespace kvick::text::jinja
