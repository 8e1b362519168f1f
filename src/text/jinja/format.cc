// Python's printf-style formatting: 'text %s %d' % (a, b).
#include <cmath>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_string.h"

namespace kvick::text::jinja {
namespace {

// The widest field that is accepted.
constexpr int kMaxWidth = 1000;

class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& arguments, Heap& heap)
      : format_(format), arguments_(arguments), heap_(heap) {
    if (is_tuple()) heap.scan(arguments.sequence().items.size());
  }

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      char c = format_[at_++];
      std::string piece = c == '%' ? conversion() : std::string(1, c);
      heap_.scan(piece.size());
      heap_.expect(out.size() + piece.size());
      out += piece;
    }
    const size_t given = is_tuple() ? arguments_.sequence().items.size() : 1;
    if (used_ < given && !arguments_.is(Kind::kDict)) fail("not all arguments of % were used");
    return out;
  }

 private:
  bool is_tuple() const {
    return arguments_.is(Kind::kSequence) && arguments_.sequence().flavour == Flavour::kTuple;
  }

  char peek() const {
    if (at_ >= format_.size()) fail("the format '{}' ends inside a conversion", format_);
    return format_[at_];
  }

  int number() {
    int n = 0;
    while (peek() >= '0' && peek() <= '9') {
      n = n * 10 + (format_[at_++] - '0');
      if (n > kMaxWidth) fail("a width or precision in '{}' is above {}", format_, kMaxWidth);
    }
    return n;
  }

  Value argument() {
    if (named_) return *named_;
    if (is_tuple() ? used_ >= arguments_.sequence().items.size() : used_ > 0)
      fail("not enough arguments for the format '{}'", format_);
    return is_tuple() ? arguments_.sequence().items[used_++] : (++used_, arguments_);
  }

  void read_name() {
    named_ = nullptr;
    if (peek() != '(') return;
    size_t end = format_.find(')', at_);
    if (end == std::string_view::npos) fail("the format '{}' lacks a )", format_);
    if (!arguments_.is(Kind::kDict)) fail("the format '{}' needs a dict", format_);
    std::string_view name = format_.substr(at_ + 1, end - at_ - 1);
    named_ = arguments_.dict().find(name, heap_);
    if (!named_) fail("the format's key '{}' is missing", name);
    at_ = end + 1;
  }

  std::string conversion() {
    read_name();
    left_ = zero_ = plus_ = space_ = false;
    for (;; ++at_) {
      char c = peek();
      if (c == '-')
        left_ = true;
      else if (c == '0')
        zero_ = true;
      else if (c == '+')
        plus_ = true;
      else if (c == ' ')
        space_ = true;
      else
        break;
    }
    const int width = number();
    int precision = -1;
    if (peek() == '.') {
      ++at_;
      precision = number();
    }
    char type = peek();
    ++at_;
    if (type == '%') return "%";
    return pad(body(type, precision), width, type);
  }

  std::string body(char type, int precision) {
    Value value = argument();
    switch (type) {
      case 's':
      case 'r': {
        std::string s = type == 's' ? to_text(value, heap_) : repr(value, heap_);
        return precision < 0 ? s : s.substr(0, byte_offset(s, static_cast<size_t>(precision)));
      }
      case 'd':
      case 'i':
      case 'u':
        return integer(value, precision);
      case 'f':
      case 'F':
      case 'e':
      case 'g':
        return real(value, type, precision < 0 ? 6 : precision);
      case 'x':
        return sign(fmt::format("{:x}", to_index(value, "%x")));
      case 'X':
        return sign(fmt::format("{:X}", to_index(value, "%X")));
      default:
        fail("the conversion %{} in '{}' is not supported", type, format_);
    }
  }

  std::string sign(std::string number) const {
    if (number[0] == '-') return number;
    return (plus_ ? "+" : (space_ ? " " : "")) + number;
  }

  std::string integer(const Value& value, int precision) const {
    if (!value.is_number()) fail("%d needs a number, not {}", type_name(value));
    int64_t n = value.as_int();
    if (value.is(Kind::kFloat)) {
      if (!(std::abs(value.as_double()) < 0x1p63)) fail("%d needs a number below 2^63");
      n = static_cast<int64_t>(value.as_double());
    }
    std::string digits = fmt::format("{}", n);
    const size_t start = n < 0 ? 1 : 0;
    if (precision > 0 && digits.size() - start < static_cast<size_t>(precision))
      digits.insert(start, static_cast<size_t>(precision) - (digits.size() - start), '0');
    return sign(digits);
  }

  std::string real(const Value& value, char type, int precision) const {
    if (!value.is_number()) fail("%{} needs a number, not {}", type, type_name(value));
    double d = value.as_double();
    if (type == 'e') return sign(fmt::format("{:.{}e}", d, precision));
    if (type == 'g') return sign(fmt::format("{:.{}g}", d, precision));
    return sign(fmt::format("{:.{}f}", d, precision));
  }

  std::string pad(std::string s, int width, char type) const {
    const size_t length = count_code_points(s);
    if (length >= static_cast<size_t>(width)) return s;
    const size_t missing = static_cast<size_t>(width) - length;
    if (left_) return s.append(missing, ' ');
    const bool number = type != 's' && type != 'r';
    if (!zero_ || !number) return s.insert(0, missing, ' ');
    const bool has_sign = s[0] == '-' || s[0] == '+' || s[0] == ' ';
    return s.insert(has_sign ? 1 : 0, missing, '0');
  }

  std::string_view format_;
  const Value& arguments_;
  Heap& heap_;
  size_t at_ = 0, used_ = 0;
  const Value* named_ = nullptr;
  bool left_ = false, zero_ = false, plus_ = false, space_ = false;
};

}  // namespace

std::string percent_format(std::string_view format, const Value& arguments, Heap& heap) {
  return PercentFormat(format, arguments, heap).run();
}

}  // namespace kvick::text::jinja
