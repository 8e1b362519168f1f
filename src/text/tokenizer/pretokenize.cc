#include "text/tokenizer/pretokenize.h"

#include <array>
#include <utf8proc.h>

#include "base/check.h"
#include "text/pieces/regex_split.h"
#include "text/unicode/classes.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

enum class Class : uint8_t { kEnd, kLetter, kNumber, kSpace, kPunctuation, kOther };

struct Char {
  uint32_t code = 0;
  uint8_t bytes = 0;
  Class cls = Class::kEnd;
  bool word() const { return cls == Class::kLetter || cls == Class::kNumber; }
  bool other() const { return cls == Class::kOther || cls == Class::kPunctuation; }
  bool newline() const { return code == '\n' || code == '\r'; }
};

Class classify(uint32_t code) {
  if (is_white_space(code)) return Class::kSpace;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Class::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Class::kNumber;
  if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO)
    return Class::kPunctuation;
  return Class::kOther;
}

// One stretch of text as characters. The code 0 stands for the end, for stray bytes and for NUL: no
// rule tests for NUL.
class Chars {
 public:
  explicit Chars(std::string_view text) : text_(text) {}

  size_t size() const { return text_.size(); }
  Char at(size_t i) const {
    if (i >= text_.size()) return {};
    const auto byte = static_cast<uint8_t>(text_[i]);
    if (byte < 0x80) return {byte, 1, ascii_class(byte)};
    const Utf8 character = decode_utf8(text_.substr(i));
    if (!character.valid) return {0, 1, Class::kOther};
    return {character.code, character.bytes, classify(character.code)};
  }
  // Returns the end of the run of characters from i on for which `in` holds, with at most `most`
  // characters.
  template <typename In>
  size_t run(size_t i, In in, size_t most = SIZE_MAX) const {
    for (; most > 0; --most) {
      const Char c = at(i);
      if (c.cls == Class::kEnd || !in(c)) break;
      i += c.bytes;
    }
    return i;
  }

 private:
  static Class ascii_class(uint8_t byte) {
    static const std::array<Class, 128> kClasses = [] {
      std::array<Class, 128> classes{};
      for (uint32_t code = 0; code < 128; ++code) classes[code] = classify(code);
      return classes;
    }();
    return kClasses[byte];
  }
  std::string_view text_;
};

// Returns the end of a contraction ('s|'t|'re|'ve|'m|'ll|'d), or i if there is none. With any_case,
// U+017F (long s) is an s.
size_t contraction_end(const Chars& text, size_t i, bool any_case) {
  if (text.at(i).code != '\'') return i;
  const auto lower = [&](const Char& c) -> uint32_t {
    if (!any_case) return c.code;
    if (c.code == 0x17F) return 's';
    return c.code >= 'A' && c.code <= 'Z' ? c.code + 32 : c.code;
  };
  const Char second = text.at(i + 1);
  const uint32_t a = lower(second);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return i + 1 + second.bytes;
  const uint32_t b = lower(text.at(i + 2));
  const bool two = (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l');
  return two ? i + 3 : i;
}

// \s+(?!\S)|\s+ : returns the end of white space that reaches the text's end; else all of it but
// the last character, or that character if it is the only one.
size_t space_end(const Chars& text, size_t i) {
  size_t end = i, last = i;
  for (Char c = text.at(end); c.cls == Class::kSpace; c = text.at(end)) {
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == i ? end : last;
}

size_t gpt2_end(const Chars& text, size_t i) {
  if (const size_t end = contraction_end(text, i, false); end > i) return end;
  const size_t start = text.at(i).code == ' ' ? i + 1 : i;
  const Char c = text.at(start);
  if (c.word()) return text.run(start, [&](const Char& d) { return d.cls == c.cls; });
  if (c.other()) return text.run(start, [](const Char& d) { return d.other(); });
  return space_end(text, i);
}

size_t llama3_end(const Chars& text, size_t i, size_t most_digits) {
  if (const size_t end = contraction_end(text, i, true); end > i) return end;
  const auto is_letter = [](const Char& d) { return d.cls == Class::kLetter; };
  const auto is_newline = [](const Char& d) { return d.newline(); };
  const Char c = text.at(i);
  if (c.cls == Class::kNumber)
    return text.run(
        i, [](const Char& d) { return d.cls == Class::kNumber; }, most_digits);
  if (is_letter(c)) return text.run(i, is_letter);
  if (!c.newline() && is_letter(text.at(i + c.bytes))) return text.run(i + c.bytes, is_letter);
  const size_t start = c.code == ' ' ? i + 1 : i;
  if (text.at(start).other())
    return text.run(text.run(start, [](const Char& d) { return d.other(); }), is_newline);
  // \s*[\r\n]+ matches white space up to its last line break.
  size_t after_break = i;
  text.run(i, [&, at = i](const Char& d) mutable {
    at += d.bytes;
    if (d.newline()) after_break = at;
    return d.cls == Class::kSpace;
  });
  return after_break > i ? after_break : space_end(text, i);
}

// For splits that only look for runs of one kind: returns the end of the run or, if none begins
// here, of the text before the next run.
template <typename In>
size_t run_end(const Chars& text, size_t i, In in, size_t most = SIZE_MAX) {
  const size_t end = text.run(i, in, most);
  return end > i ? end : text.run(i, [&](const Char& c) { return !in(c); });
}

size_t three_digits_end(const Chars& text, size_t i) {
  const auto is_digit = [](const Char& c) { return c.code >= '0' && c.code <= '9'; };
  const auto three = [&](size_t at) { return text.run(at, is_digit, 3) == at + 3; };
  if (three(i)) return i + 3;
  while (i < text.size() && !three(i)) i += text.at(i).bytes;
  return i;
}

template <typename In>
size_t threes_end(const Chars& text, size_t i, In in) {
  size_t take = 3;
  if (i == 0) {
    size_t count = 0;
    const size_t end = text.run(0, [&](const Char& c) { return in(c) && ++count > 0; });
    if (end < text.size()) return text.size();
    take = count % 3 == 0 ? 3 : count % 3;
  }
  return text.run(i, in, take);
}

size_t stretch_end(Scanner split, const Chars& text, size_t i) {
  const auto is_number = [](const Char& c) { return c.cls == Class::kNumber; };
  const auto is_punctuation = [&](const Char& c) {
    const bool ascii = c.code < 0x80 && c.code != 0;
    return c.cls == Class::kPunctuation ||
           (ascii && std::string_view("$+<=>^~|").find(static_cast<char>(c.code)) !=
                         std::string_view::npos) ||
           (c.code == '`' && split == Scanner::kFalconPunctuation);
  };
  switch (split) {
    case Scanner::kNone:
      return text.size();
    case Scanner::kGpt2:
      return gpt2_end(text, i);
    case Scanner::kLlama3:
      return llama3_end(text, i, 3);
    case Scanner::kQwen2:
      return llama3_end(text, i, 1);
    case Scanner::kNumber:
      return run_end(text, i, is_number, 1);
    case Scanner::kNumbers:
      return run_end(text, i, is_number);
    case Scanner::kThreeDigits:
      return three_digits_end(text, i);
    case Scanner::kThrees:
      return threes_end(text, i, is_number);
    case Scanner::kDigitThrees:
      return threes_end(text, i, [](const Char& c) {
        return c.code != 0 &&
               utf8proc_category(static_cast<utf8proc_int32_t>(c.code)) == UTF8PROC_CATEGORY_ND;
      });
    case Scanner::kPunctuation:
    case Scanner::kFalconPunctuation:
      return run_end(text, i, is_punctuation);
  }
  return text.size();
}

}  // namespace

void scan_text(Scanner scanner, std::string_view text,
               base::FunctionRef<void(std::string_view)> stretch) {
  const Chars chars(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = stretch_end(scanner, chars, i);
    KVICK_CHECK(end > i, "a split found nothing at byte {}", i);
    stretch(text.substr(i, end - i));
    i = end;
  }
}

PreTokenizerRun::PreTokenizerRun(const PreTokenizer& pre) : splits_(pre.splits) {
  for (const Split& split : splits_)
    regexes_.push_back(split.scanner != Scanner::kNone ? nullptr
                                                       : std::make_unique<RegexSplit>(split.regex));
}

PreTokenizerRun::PreTokenizerRun(PreTokenizerRun&&) noexcept = default;
PreTokenizerRun::~PreTokenizerRun() = default;

void PreTokenizerRun::operator()(std::string_view text,
                                 base::FunctionRef<void(std::string_view)> stretch) const {
  if (text.empty()) return;
  std::vector<RegexSplit::Scratch> scratch;  // one per split
  for (const auto& regex : regexes_)
    scratch.push_back(regex != nullptr ? regex->scratch() : RegexSplit::Scratch());
  const auto nest = [&](const auto& self, size_t depth, std::string_view part) -> void {
    if (depth == splits_.size()) return stretch(part);
    const auto inner = [&](std::string_view piece) { self(self, depth + 1, piece); };
    if (regexes_[depth] != nullptr)
      regexes_[depth]->split(part, scratch[depth], inner);
    else
      scan_text(splits_[depth].scanner, part, inner);
  };
  nest(nest, 0, text);
}

}  // namespace kvick::text
