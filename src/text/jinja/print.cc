#include "text/jinja/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

std::string_view bool_text(bool b) { return b ? "True" : "False"; }

// Appends to one string, and asks the heap before the string grows.
class Printer {
 public:
  explicit Printer(Heap& heap) : heap_(heap) {}

  std::string take() { return std::move(out_); }

  void repr(const Value& value) {
    switch (value.kind()) {
      case Kind::kUndefined:
        return put("Undefined");
      case Kind::kNone:
        return put("None");
      case Kind::kBool:
        return put(bool_text(value.as_bool()));
      case Kind::kInt:
        return put(fmt::format("{}", value.as_int()));
      case Kind::kFloat:
        return put(repr_double(value.as_double()));
      case Kind::kString:
        return repr_text(value.str());
      case Kind::kSequence:
        return repr_sequence(value.sequence());
      case Kind::kDict:
        return repr_entries(value.dict());
      default:
        fail("a {} has no text form", type_name(value));
    }
  }

 private:
  void put(std::string_view s) {
    heap_.scan(s.size());
    heap_.expect(out_.size() + s.size());
    out_ += s;
  }

  void repr_text(const Str& s) {
    std::string quoted = repr_string(s.text);
    put(s.markup ? fmt::format("Markup({})", quoted) : quoted);
  }

  void repr_sequence(const Sequence& sequence) {
    static constexpr std::string_view kOpen[] = {
        "[", "(", "", "dict_keys([", "dict_values([", "dict_items(["};
    static constexpr std::string_view kClose[] = {"]", ")", "", "])", "])", "])"};
    if (sequence.flavour == Flavour::kRange) return put(sequence.shown);
    if (sequence.flavour == Flavour::kGenerator)
      fail("a generator has no text form; use |list or |join first");
    put(kOpen[static_cast<size_t>(sequence.flavour)]);
    for (size_t i = 0; i < sequence.items.size(); ++i) {
      if (i > 0) put(", ");
      repr(sequence.items[i]);
    }
    if (sequence.flavour == Flavour::kTuple && sequence.items.size() == 1) put(",");
    put(kClose[static_cast<size_t>(sequence.flavour)]);
  }

  void repr_entries(const Dict& dict) {
    put("{");
    for (size_t i = 0; i < dict.entries.size(); ++i) {
      if (i > 0) put(", ");
      repr(dict.entries[i].first);
      put(": ");
      repr(dict.entries[i].second);
    }
    put("}");
  }

  Heap& heap_;
  std::string out_;
};

class JsonPrinter {
 public:
  JsonPrinter(const JsonOptions& options, Heap& heap) : options_(options), heap_(heap) {}

  std::string take() { return std::move(out_); }

  void value(const Value& v) {
    switch (v.kind()) {
      case Kind::kNone:
        return put("null");
      case Kind::kBool:
        return put(v.as_bool() ? "true" : "false");
      case Kind::kInt:
        return put(fmt::format("{}", v.as_int()));
      case Kind::kFloat:
        return number(v.as_double());
      case Kind::kString:
        return text(v.text());
      case Kind::kDict:
        return object(v.dict());
      case Kind::kSequence:
        if (v.sequence().flavour <= Flavour::kTuple) return array(v.sequence().items);
        [[fallthrough]];
      default:
        fail("a value of type {} cannot be written as JSON", type_name(v));
    }
  }

 private:
  void put(std::string_view s) {
    heap_.scan(s.size());
    heap_.expect(out_.size() + s.size());
    out_ += s;
  }

  void number(double d) {
    if (std::isnan(d)) return put("NaN");
    if (std::isinf(d)) return put(d > 0 ? "Infinity" : "-Infinity");
    put(repr_double(d));
  }

  void text(std::string_view s) {
    std::string quoted = "\"";
    for (size_t at = 0; at < s.size();) {
      char32_t c = next_code_point(s, at);
      if (c == '"' || c == '\\')
        quoted.append(1, '\\').append(1, static_cast<char>(c));
      else if (c < 0x20)
        control(quoted, c);
      else if (options_.ascii && c > 0x7E)
        escaped(quoted, c);
      else
        append_code_point(quoted, c);
    }
    put(quoted += '"');
  }

  static void control(std::string& out, char32_t c) {
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\b':
        out += "\\b";
        break;
      default:
        out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    }
  }

  static void escaped(std::string& out, char32_t c) {
    if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    }
  }

  void line_break() {
    if (!options_.pretty) return;
    put("\n");
    for (int i = 0; i < level_; ++i) put(options_.indentation);
  }

  void array(const Values& items) {
    if (items.empty()) return put("[]");
    put("[");
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) put(options_.comma);
      line_break();
      value(items[i]);
    }
    --level_;
    line_break();
    put("]");
  }

  void key(const Value& k) {
    switch (k.kind()) {
      case Kind::kString:
        return text(k.text());
      case Kind::kNone:
      case Kind::kBool:
      case Kind::kInt:
      case Kind::kFloat:
        put("\"");
        value(k);
        return put("\"");
      default:
        fail("a {} cannot be a key in JSON", type_name(k));
    }
  }

  void object(const Dict& dict) {
    if (dict.entries.empty()) return put("{}");
    std::vector<Entry> sorted;
    if (options_.sort_keys) {
      sorted = dict.entries;
      std::stable_sort(sorted.begin(), sorted.end(), [&](const Entry& a, const Entry& b) {
        return less(a.first, b.first, heap_);
      });
    }
    const std::vector<Entry>& entries = options_.sort_keys ? sorted : dict.entries;
    put("{");
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) put(options_.comma);
      line_break();
      key(entries[i].first);
      put(options_.colon);
      value(entries[i].second);
    }
    --level_;
    line_break();
    put("}");
  }

  const JsonOptions& options_;
  Heap& heap_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

std::string repr_double(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), d, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer, static_cast<size_t>(end - buffer));
  size_t e = shortest.find('e');
  int exponent = 0;
  std::from_chars(shortest.data() + e + (shortest[e + 1] == '+' ? 2 : 1), end, exponent);
  // 1e-05, 1.5e+16: as in Python.
  if (exponent < -4 || exponent >= 16) return std::string(shortest);
  auto digits = static_cast<int>(e) - (d < 0 || std::signbit(d) ? 1 : 0);
  int decimals = std::max(digits > 1 ? digits - 2 - exponent : -exponent, 1);
  return fmt::format("{:.{}f}", d, decimals);
}

std::string to_text(const Value& value, Heap& heap) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kString:
      heap.expect(value.text().size());
      return std::string(value.text());
    default:
      return repr(value, heap);
  }
}

std::string repr(const Value& value, Heap& heap) {
  Printer printer(heap);
  printer.repr(value);
  return printer.take();
}

std::string to_json(const Value& value, const JsonOptions& options, Heap& heap) {
  JsonPrinter printer(options, heap);
  printer.value(value);
  return printer.take();
}

}  // namespace kvick::text::jinja
