#include "text/jinja/lexer.h"

#include <algorithm>

#include "text/jinja/python_string.h"
#include "text/jinja/value.h"

namespace kvick::text::jinja {
namespace {

// Larger templates are refused. The largest published ones have 20 KB.
constexpr size_t kMaxSource = 1 << 20;

std::string normalize_newlines(std::string_view source) {
  std::string out;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_digit_of(char c, int base) {
  int digit = c >= '0' && c <= '9'
                  ? c - '0'
                  : ((c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 99);
  return digit < base;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  std::vector<Token> run() {
    while (at_ < source_.size()) text_then_tag();
    emit(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void error(std::string message, int line) const {
    throw Failure{std::move(message), line};
  }

  bool starts(std::string_view what) const { return source_.substr(at_, what.size()) == what; }
  char at(size_t i) const { return i < source_.size() ? source_[i] : '\0'; }

  void emit(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  void skip_space() {
    size_t end = at_;
    for (size_t next = at_; next < source_.size() && is_space(next_code_point(source_, next));)
      end = next;
    advance(end);
  }

  // Returns the start of the line of `end` if only white space lies between the two, else `end`.
  // begin: where the text before the tag starts, perhaps the start of the template.
  size_t line_start(size_t begin, size_t end) const {
    size_t newline = source_.substr(begin, end - begin).rfind('\n');
    bool starts_line =
        newline != std::string_view::npos || begin == 0 || source_[begin - 1] == '\n';
    size_t start = newline == std::string_view::npos ? begin : begin + newline + 1;
    std::string_view indent = source_.substr(start, end - start);
    return starts_line && strip(indent, {}, Side::kLeft).empty() ? start : end;
  }

  // Emits the text up to `tag`, trimmed by the tag's sign: - strips all white space, + nothing, and
  // no sign what lstrip_blocks strips.
  void emit_text(size_t tag, bool lstrip) {
    const size_t begin = at_;
    size_t end = tag;
    char sign = at(tag + 2);
    if (sign == '-')
      end = begin + strip(source_.substr(begin, tag - begin), {}, Side::kRight).size();
    else if (sign != '+' && lstrip)
      end = line_start(begin, tag);
    if (end > begin) emit(TokenType::kData, std::string(source_.substr(begin, end - begin)));
    advance(tag);
  }

  void text_then_tag() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string_view::npos) {
        emit(TokenType::kData, std::string(source_.substr(at_)));
        at_ = source_.size();
        return;
      }
      char next = at(tag + 1);
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char kind = source_[tag + 1];
    emit_text(tag, kind != '{');
    const bool has_sign = at(tag + 2) == '-' || at(tag + 2) == '+';
    const size_t inside = tag + 2 + (has_sign ? 1 : 0);
    if (kind == '#') return comment(inside);
    if (kind == '%' && raw(inside)) return;
    emit(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, "");
    at_ = inside;
    expression(kind == '{');
  }

  // Applies white space control after a tag's last character.
  void end_block(char sign) {
    if (sign == '-')
      skip_space();
    else if (sign != '+' && at(at_) == '\n')
      advance(at_ + 1);
  }

  void comment(size_t inside) {
    size_t end = source_.find("#}", inside);
    if (end == std::string_view::npos) error("a comment {# is not closed", line_);
    char sign = end > inside ? source_[end - 1] : '\0';
    advance(end + 2);
    end_block(sign);
  }

  // Returns the end of "{%- name -%}" whose inside starts at `inside`, or 0 if it is another tag.
  // sign: receives the sign before %}.
  size_t plain_tag(size_t inside, std::string_view name, char& sign) const {
    size_t i = inside;
    auto skip = [&] {
      while (i < source_.size() && is_space(static_cast<unsigned char>(source_[i]))) ++i;
    };
    skip();
    if (source_.substr(i, name.size()) != name) return 0;
    i += name.size();
    skip();
    sign = at(i) == '-' || at(i) == '+' ? source_[i++] : '\0';
    return source_.substr(i, 2) == "%}" ? i + 2 : 0;
  }

  bool raw(size_t inside) {
    char sign;
    size_t begin = plain_tag(inside, "raw", sign);
    if (begin == 0 || sign == '+') return false;
    const int start_line = line_;
    advance(begin);
    if (sign == '-') skip_space();
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != std::string_view::npos; ++tag) {
      const bool has_sign = at(tag + 2) == '-' || at(tag + 2) == '+';
      size_t end = plain_tag(tag + 2 + (has_sign ? 1 : 0), "endraw", sign);
      if (end == 0) continue;
      emit_text(tag, true);
      advance(end);
      end_block(sign);
      return true;
    }
    error("{% raw %} is not closed", start_line);
  }

  void expression(bool variable) {
    const int start_line = line_;
    std::string open;  // brackets that are not closed yet
    for (;;) {
      skip_space();
      if (at_ >= source_.size())
        error(variable ? "{{ is not closed" : "{% is not closed", start_line);
      if (open.empty() && end_of_tag(variable)) return;
      char c = source_[at_];
      if (c == '\'' || c == '"')
        string(c);
      else if (c >= '0' && c <= '9')
        number();
      else if (is_name_byte(c))
        name();
      else
        operation(open);
    }
  }

  bool end_of_tag(bool variable) {
    std::string_view close = variable ? "}}" : "%}";
    char sign = source_[at_] == '-' || (source_[at_] == '+' && !variable) ? source_[at_] : '\0';
    if (source_.substr(at_ + (sign ? 1 : 0), 2) != close) return false;
    emit(variable ? TokenType::kVariableEnd : TokenType::kBlockEnd, "");
    at_ += sign ? 3 : 2;
    if (!variable || sign == '-') end_block(sign);
    return true;
  }

  void name() {
    size_t end = at_;
    while (end < source_.size() && is_name_byte(source_[end])) ++end;
    emit(TokenType::kName, std::string(source_.substr(at_, end - at_)));
    at_ = end;
  }

  // Appends digits of a base. Single underscores between them are dropped.
  void digits(int base, std::string& out) {
    while (is_digit_of(at(at_), base) || (at(at_) == '_' && is_digit_of(at(at_ + 1), base))) {
      if (source_[at_] != '_') out += source_[at_];
      ++at_;
    }
  }

  void number() {
    std::string text;
    char prefix = static_cast<char>(at(at_ + 1) | 32);
    int base = source_[at_] != '0'
                   ? 10
                   : (prefix == 'x' ? 16 : (prefix == 'o' ? 8 : (prefix == 'b' ? 2 : 10)));
    if (base != 10) {
      text = {'0', prefix};
      at_ += 2;
      digits(base, text);
      return emit(TokenType::kInteger, std::move(text));
    }
    digits(10, text);
    const bool after_dot = !tokens_.empty() && tokens_.back().type == TokenType::kOperator &&
                           tokens_.back().text == ".";
    bool real = false;
    if (!after_dot && at(at_) == '.' && is_digit_of(at(at_ + 1), 10)) {
      real = true;
      text += source_[at_++];
      digits(10, text);
    }
    const size_t sign = at(at_ + 1) == '+' || at(at_ + 1) == '-' ? 1 : 0;
    if (!after_dot && (at(at_) | 32) == 'e' && is_digit_of(at(at_ + 1 + sign), 10)) {
      real = true;
      text.append(source_.substr(at_, 1 + sign));
      at_ += 1 + sign;
      digits(10, text);
    }
    emit(real ? TokenType::kFloat : TokenType::kInteger, std::move(text));
  }

  void string(char quote) {
    const int start_line = line_;
    std::string text;
    size_t i = at_ + 1;
    while (i < source_.size() && source_[i] != quote) {
      if (source_[i] == '\\')
        escape(i, text, start_line);
      else
        text += source_[i++];
    }
    if (i >= source_.size()) error("a string is not closed", start_line);
    emit(TokenType::kString, std::move(text));
    advance(i + 1);
  }

  // source_[i] is the backslash; moves i past the escape.
  void escape(size_t& i, std::string& text, int start_line) const {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = at(i + 1);
    i += 2;
    if (size_t known = kFrom.find(c); known != std::string_view::npos) {
      text += kTo[known];
    } else if (c == 'x' || c == 'u' || c == 'U') {
      hexadecimal(i, c == 'x' ? 2 : (c == 'u' ? 4 : 8), text, start_line);
    } else if (is_digit_of(c, 8)) {
      char32_t code = static_cast<char32_t>(c - '0');
      for (int n = 1; n < 3 && is_digit_of(at(i), 8); ++n)
        code = code * 8 + static_cast<char32_t>(source_[i++] - '0');
      append_code_point(text, code);
    } else if (c == 'N') {
      error("the escape \\N{...} is not supported", start_line);
    } else if (c != '\n') {
      text += '\\';
      --i;
    }
  }

  void hexadecimal(size_t& i, int count, std::string& text, int start_line) const {
    char32_t code = 0;
    for (int n = 0; n < count; ++n, ++i) {
      if (!is_digit_of(at(i), 16)) error("a \\x, \\u or \\U escape has too few digits", start_line);
      code = code * 16 + static_cast<char32_t>(source_[i] <= '9' ? source_[i] - '0'
                                                                 : (source_[i] | 32) - 'a' + 10);
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      error("a \\u or \\U escape is no character", start_line);
    append_code_point(text, code);
  }

  void operation(std::string& open) {
    static constexpr std::string_view kDouble[] = {"**", "//", "==", "!=", ">=", "<="};
    static constexpr std::string_view kSingle = "+-*/%~<>=.:|,;()[]{}";
    std::string_view text;
    for (std::string_view op : kDouble)
      if (starts(op)) text = op;
    if (text.empty() && kSingle.find(source_[at_]) != std::string_view::npos)
      text = source_.substr(at_, 1);
    if (text.empty())
      error(fmt::format("{} begins no expression", repr_string(source_.substr(at_, 1))), line_);
    const char c = text[0];
    if (c == '(' || c == '[' || c == '{') open += c;
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) error(fmt::format("'{}' closes nothing", c), line_);
      const char expected = open.back() == '(' ? ')' : static_cast<char>(open.back() + 2);
      if (c != expected) error(fmt::format("'{}' where '{}' is expected", c, expected), line_);
      open.pop_back();
    }
    emit(TokenType::kOperator, std::string(text));
    at_ += text.size();
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> lex(std::string_view source) {
  if (source.size() > kMaxSource)
    throw Failure{fmt::format("it has {} bytes, more than the {} a template may have",
                              source.size(), kMaxSource),
                  1};
  std::string normal = normalize_newlines(source);
  return Lexer(normal).run();
}

}  // namespace kvick::text::jinja
