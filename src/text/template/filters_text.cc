// Filters that return text.
#include <algorithm>
#include <utility>

#include "text/jinja/operators.h"
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

Value force_escape(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|forceescape", arguments, {"value"}, 1);
  Soft soft(evaluator, bound[0]);
  evaluator.heap().expect(soft.text.size() * 6);
  return evaluator.string(html_escape(soft.text), true);
}

Value truncate(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|truncate", arguments, {"s", "length", "killwords", "end", "leeway"}, 1);
  const Value end = bound.given(3) ? bound[3] : evaluator.string("...");
  const auto end_length = static_cast<int64_t>(count_code_points(bound.string(3, "...")));
  const int64_t length = bound.integer(1, 255), leeway = bound.missing(4) ? 5 : bound.integer(4, 5);
  if (length < end_length) fail("|truncate needs a length of at least {}", end_length);
  if (leeway < 0) fail("|truncate needs a leeway of at least 0");
  if (bound[0].is(Kind::kUndefined)) return bound[0];
  const std::string_view text = bound.string(0, "");
  evaluator.heap().scan(text.size());
  if (static_cast<int64_t>(bound[0].str().length()) - leeway <= length) return bound[0];
  std::string_view kept =
      text.substr(0, byte_offset(text, static_cast<size_t>(length - end_length)));
  if (!bound.flag(2, false)) kept = kept.substr(0, kept.rfind(' '));
  const Value head = evaluator.string(std::string(kept), bound[0].str().markup);
  return binary(BinaryOp::kAdd, head, end, evaluator.heap());
}

// Python's urllib.parse.quote, which keeps '/', or quote_plus for a part of a query.
std::string url_quote(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos;
    if (plain || (c == '/' && !in_query))
      out += c;
    else if (c == ' ' && in_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<uint32_t>(static_cast<unsigned char>(c)));
  }
  return out;
}

Value url_encode(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|urlencode", arguments, {"value"}, 1);
  const Value& value = bound[0];
  std::string out;
  const auto add = [&](const Value& part, bool in_query) {
    const Soft soft(evaluator, part);
    evaluator.heap().expect(out.size() + 3 * soft.text.size());
    out += url_quote(soft.text, in_query);
  };
  const auto add_pair = [&](const Value& name, const Value& content) {
    if (!out.empty()) out += '&';
    add(name, true);
    out += '=';
    add(content, true);
  };
  if (value.is(Kind::kDict)) {
    for (const auto& [name, content] : value.dict().entries) add_pair(name, content);
  } else if (value.is(Kind::kSequence) || value.is(Kind::kUndefined)) {
    for (const Value& pair : items_of(value, evaluator.heap())) {
      const Values both = items_of(pair, evaluator.heap());
      if (both.size() != 2) fail("|urlencode needs pairs of a name and a value");
      add_pair(both[0], both[1]);
    }
  } else {
    add(value, false);
  }
  return evaluator.string(std::move(out));
}

// Entries that are none or undefined are left out.
Value xml_attributes(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|xmlattr", arguments, {"d", "autospace"}, 1);
  if (bound[0].is(Kind::kUndefined)) fail_undefined(bound[0]);
  if (!bound[0].is(Kind::kDict)) fail("|xmlattr needs a dict, not {}", type_name(bound[0]));
  const bool space_before = bound.flag(1, true);
  std::string out;
  const auto add = [&](const Value& part) {
    const Soft soft(evaluator, part);
    evaluator.heap().expect(out.size() + 6 * soft.text.size());
    out += soft.markup ? soft.text : html_escape(soft.text);
  };
  for (const auto& [name, content] : bound[0].dict().entries) {
    if (content.is(Kind::kNone) || content.is(Kind::kUndefined)) continue;
    if (!name.is(Kind::kString)) fail("|xmlattr needs names that are strings");
    if (name.text().find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos)
      fail("|xmlattr: the name {} has white space, '/', '>' or '='", repr(name, evaluator.heap()));
    if (space_before || !out.empty()) out += ' ';
    add(name);
    out += "=\"";
    add(content);
    out += '"';
  }
  return evaluator.string(std::move(out));
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

// What |wordwrap may do to words.
struct Wrapping {
  size_t width;
  bool break_long_words, break_on_hyphens;
};

// Python's textwrap.wrap, of one line.
class Wrapper {
 public:
  Wrapper(std::u32string_view line, const Wrapping& wrapping) : line_(line), wrapping_(wrapping) {}

  std::vector<std::u32string_view> lines() {
    std::vector<std::u32string_view> out;
    for (size_t at = 0; at < line_.size();) {
      if (!out.empty() && is_blank(chunk(at))) at += chunk(at).size();
      // [begin, at) is the line, and `last` is where its last part begins.
      const size_t begin = at;
      size_t last = at;
      const auto used = [&] { return at - begin; };
      while (at < line_.size() && used() + chunk(at).size() <= wrapping_.width) {
        last = at;
        at += chunk(at).size();
      }
      if (at < line_.size() && chunk(at).size() > wrapping_.width) {
        const size_t part = part_of_long(chunk(at), wrapping_.width - used(), used() == 0);
        if (part > 0 || wrapping_.break_long_words) last = at;
        at += part;
      }
      const size_t end = is_blank(line_.substr(last, at - last)) ? last : at;
      if (end > begin) out.push_back(line_.substr(begin, end - begin));
    }
    return out;
  }

 private:
  static bool is_gap(char32_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
  static bool is_letter(char32_t c) { return is_word(c) && !is_digit(c); }
  static bool is_blank(std::u32string_view s) {
    return std::all_of(s.begin(), s.end(), [](char32_t c) { return is_space(c); });
  }
  char32_t character(size_t i) const { return i < line_.size() ? line_[i] : U'\0'; }
  bool letter_at(size_t i) const { return i < line_.size() && is_letter(line_[i]); }

  // How much of a chunk that is longer than a line goes on this one. alone: nothing is on it yet.
  size_t part_of_long(std::u32string_view word, size_t left, bool alone) const {
    if (!wrapping_.break_long_words) return alone ? word.size() : 0;
    if (!wrapping_.break_on_hyphens || left == 0) return left;
    const size_t hyphen = word.rfind(U'-', left - 1);
    const bool within = hyphen != word.npos && hyphen > 0 &&
                        word.substr(0, hyphen).find_first_not_of(U'-') != word.npos;
    return within ? hyphen + 1 : left;
  }

  // The indivisible part that begins at `begin`. What is left of a part that was cut is one too.
  std::u32string_view chunk(size_t begin) {
    if (chunk_end_ <= begin) chunk_end_ = end_of_chunk(begin);
    return line_.substr(begin, chunk_end_ - begin);
  }

  size_t end_of_chunk(size_t begin) const {
    size_t end = begin + 1;
    if (is_gap(line_[begin])) {
      while (end < line_.size() && is_gap(line_[end])) ++end;
      return end;
    }
    if (!wrapping_.break_on_hyphens) {
      while (end < line_.size() && !is_gap(line_[end])) ++end;
      return end;
    }
    if (dash_begins(begin)) return line_.find_first_not_of(U'-', begin);
    for (; end < line_.size() && !is_gap(line_[end]); ++end) {
      if (hyphen_at(end)) return end + 1;
      if (dash_begins(end)) return end;
    }
    return end;
  }

  // Whether two or more hyphens at i stand for a dash between words.
  bool dash_begins(size_t i) const {
    if (i == 0 || character(i) != '-' || character(i + 1) != '-') return false;
    const char32_t before = character(i - 1);
    const bool ends_word =
        is_word(before) ||
        (before < 0x80 &&
         std::string_view("!\"'&.,?").find(static_cast<char>(before)) != std::string_view::npos);
    if (!ends_word) return false;
    const size_t behind = line_.find_first_not_of(U'-', i);
    return behind != line_.npos && is_word(line_[behind]);
  }

  // Whether a word may be broken behind the hyphen at i: between letters, as in goof-ball or
  // e-mail.
  bool hyphen_at(size_t i) const {
    if (character(i) != '-') return false;
    const bool two = i >= 2 && letter_at(i - 1) && letter_at(i - 2);
    const bool one = i >= 3 && letter_at(i - 1) && character(i - 2) == '-' && letter_at(i - 3);
    if (!two && !one) return false;
    return letter_at(i + 1) && (letter_at(i + 2) || (character(i + 2) == '-' && letter_at(i + 3)));
  }

  const std::u32string_view line_;
  const Wrapping wrapping_;
  size_t chunk_end_ = 0;
};

Value word_wrap(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("|wordwrap", arguments,
              {"s", "width", "break_long_words", "wrapstring", "break_on_hyphens"}, 1);
  const std::string_view text = bound.string(0, "");
  const std::string_view between = bound.missing(3) ? "\n" : bound.string(3, "\n");
  const int64_t width = bound.integer(1, 79);
  evaluator.heap().expect(text.size() * 24);  // its characters, and views of its lines
  evaluator.heap().work(text.size());
  std::string out;
  bool begun = false;
  for (const std::string_view line : split_lines(text)) {
    if (width < 1) fail("|wordwrap needs a width of at least 1, not {}", width);
    std::u32string characters;
    for (size_t at = 0; at < line.size();) characters += next_code_point(line, at);
    auto lines =
        Wrapper(characters, {static_cast<size_t>(width), bound.flag(2, true), bound.flag(4, true)})
            .lines();
    if (lines.empty()) lines.emplace_back();  // an empty line is kept
    for (const std::u32string_view wrapped : lines) {
      evaluator.heap().expect(out.size() + between.size() + 4 * wrapped.size());
      if (std::exchange(begun, true)) out += between;
      for (const char32_t c : wrapped) append_code_point(out, c);
    }
  }
  return evaluator.string(std::move(out));
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
    {"forceescape", force_escape},
    {"truncate", truncate},
    {"urlencode", url_encode},
    {"xmlattr", xml_attributes},
    {"wordcount", word_count},
    {"wordwrap", word_wrap},
    {"format", format_filter},
    {"center", center},
};

}  // namespace

std::span<const FunctionRow> text_filters() { return kFilters; }

}  // namespace kvick::text::jinja
