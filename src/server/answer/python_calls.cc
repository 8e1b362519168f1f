#include "server/answer/python_calls.h"

#include "server/answer/text_marks.h"
#include "text/unicode/utf8.h"

namespace kvick::server {
namespace {

constexpr int kMostDeep = 64;

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A recursive-descent parser. Functions return false, or nothing, if the text does not have their
// form; the rest of the text is unspecified then.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : rest_(text) { skip_space(); }

  std::optional<std::vector<ToolCall>> calls() {
    std::vector<ToolCall> found;
    const bool list = skip('[');
    do {
      if (list && !found.empty() && next_is(']')) break;
      std::optional<ToolCall> call = this->call();
      if (!call) return std::nullopt;
      found.push_back(*std::move(call));
    } while (skip(','));
    if (list && !skip(']')) return std::nullopt;
    if (!rest_.empty()) return std::nullopt;
    return found;
  }

 private:
  void skip_space() { rest_.remove_prefix(text_begin(rest_)); }
  bool next_is(char c) const { return !rest_.empty() && rest_.front() == c; }
  bool skip(char c) {
    if (!next_is(c)) return false;
    rest_.remove_prefix(1);
    skip_space();
    return true;
  }
  // Takes a word of the characters of a name and those in `more`.
  std::string_view word(std::string_view more) {
    size_t end = 0;
    while (end < rest_.size() && (in_name(rest_[end]) || more.find(rest_[end]) != more.npos)) ++end;
    const std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip_space();
    return found;
  }

  std::optional<ToolCall> call() {
    const std::string_view name = word(".-");
    if (name.empty() || !skip('(')) return std::nullopt;
    Json arguments = Json::object();
    while (!next_is(')')) {
      const std::string_view key = word("");
      Json value;
      if (key.empty() || !skip('=') || !this->value(value, 0)) return std::nullopt;
      arguments[std::string(key)] = std::move(value);
      if (!skip(',')) break;
    }
    if (!skip(')')) return std::nullopt;
    return ToolCall{.name = std::string(name), .arguments = to_text(arguments)};
  }

  bool value(Json& out, int depth) {
    if (rest_.empty() || depth > kMostDeep) return false;
    if (next_is('"') || next_is('\'')) return string(out);
    if (skip('[')) return items(out, ']', depth);
    if (skip('(')) return items(out, ')', depth);
    if (skip('{')) return dictionary(out, depth);
    return plain(out);
  }
  bool items(Json& out, char close, int depth) {
    out = Json::array();
    while (!next_is(close)) {
      Json one;
      if (!value(one, depth + 1)) return false;
      out.push_back(std::move(one));
      if (!skip(',')) break;
    }
    return skip(close);
  }
  bool dictionary(Json& out, int depth) {
    out = Json::object();
    while (!next_is('}')) {
      Json key, one;
      if (!(next_is('"') || next_is('\'')) || !string(key) || !skip(':') || !value(one, depth + 1))
        return false;
      out[key.get<std::string>()] = std::move(one);
      if (!skip(',')) break;
    }
    return skip('}');
  }
  // A number or a constant.
  bool plain(Json& out) {
    const std::string_view found = word("+-.");
    if (found == "True" || found == "true") return out = true, true;
    if (found == "False" || found == "false") return out = false, true;
    if (found == "None" || found == "null") return out = nullptr, true;
    auto number = parse_json(found);
    if (!number.ok() || !number->is_number()) return false;
    out = *std::move(number);
    return true;
  }

  bool string(Json& out) {
    const char quote = rest_.front();
    const std::string three(3, quote);
    const bool long_one = rest_.starts_with(three);
    const std::string_view close =
        long_one ? std::string_view(three) : std::string_view(three).substr(2);
    rest_.remove_prefix(close.size());
    std::string text;
    while (!rest_.starts_with(close)) {
      if (rest_.empty() || (!long_one && rest_.front() == '\n')) return false;
      if (rest_.front() == '\\') {
        if (!escape(text)) return false;
      } else {
        text += rest_.front();
        rest_.remove_prefix(1);
      }
    }
    rest_.remove_prefix(close.size());
    skip_space();
    out = std::move(text);
    return true;
  }
  bool escape(std::string& text) {
    if (rest_.size() < 2) return false;
    const char kind = rest_[1];
    rest_.remove_prefix(2);
    switch (kind) {
      case 'n':
        return text += '\n', true;
      case 't':
        return text += '\t', true;
      case 'r':
        return text += '\r', true;
      case '\n':  // a continued line
        return true;
      case '\\':
      case '\'':
      case '"':
        return text += kind, true;
      case 'x':
        return code(2, text);
      case 'u':
        return code(4, text);
      case 'U':
        return code(8, text);
      default:  // Python keeps the backslash and the character
        text += '\\';
        text += kind;
        return true;
    }
  }
  // Two escaped UTF-16 surrogates, as in JSON, are one character.
  bool code(size_t digits, std::string& text) {
    uint32_t number;
    if (!hex(digits, number)) return false;
    if (number >= 0xD800 && number < 0xDC00) {
      uint32_t low;
      if (!rest_.starts_with("\\u")) return false;
      rest_.remove_prefix(2);
      if (!hex(4, low) || low < 0xDC00 || low > 0xDFFF) return false;
      number = 0x10000 + ((number - 0xD800) << 10) + (low - 0xDC00);
    }
    if (number > 0x10FFFF || (number >= 0xD800 && number < 0xE000)) return false;
    text::append_utf8(number, text);
    return true;
  }
  bool hex(size_t digits, uint32_t& number) {
    if (rest_.size() < digits) return false;
    number = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = hex_digit(rest_[i]);
      if (digit < 0) return false;
      number = number << 4 | static_cast<uint32_t>(digit);
    }
    rest_.remove_prefix(digits);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::optional<std::vector<ToolCall>> python_calls(std::string_view text) {
  return PythonReader(text).calls();
}

}  // namespace kvick::server
