#include "text/tokenizer/pretokenize.h"

#include <fmt/ranges.h>
#include <span>
#include <utf8proc.h>
#include <vector>

#include "base/check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

constexpr std::array kGpt2 = {Split::kGpt2, Split::kNone, Split::kNone, Split::kNone};
constexpr std::array kSmollm = {Split::kNumber, Split::kGpt2, Split::kNone, Split::kNone};
constexpr std::array kLlama3 = {Split::kLlama3, Split::kNone, Split::kNone, Split::kNone};
constexpr std::array kQwen2 = {Split::kQwen2, Split::kNone, Split::kNone, Split::kNone};
constexpr std::array kDefault = {Split::kPunctuation, Split::kGpt2, Split::kNumbers,
                                 Split::kThreeDigits};
constexpr std::array kFalcon = {Split::kFalconPunctuation, Split::kGpt2, Split::kThreeDigits,
                                Split::kNone};

constexpr PreTokenizer kKnown[] = {
    {"default", kDefault},
    {"", kDefault},
    {"gpt-2", kGpt2},
    {"gpt2", kGpt2},
    {"phi-2", kGpt2},
    {"mpt", kGpt2},
    {"olmo", kGpt2},
    {"jais", kGpt2},
    {"trillion", kGpt2},
    {"gigachat", kGpt2},
    {"a.x-4.0", kGpt2},
    {"mellum", kGpt2},
    {"exaone4", kGpt2},
    {"granite-docling", kGpt2},
    {"smollm", kSmollm},
    {"starcoder", kSmollm},
    {"refact", kSmollm},
    {"command-r", kSmollm},
    {"codeshell", kSmollm},
    {"exaone", kSmollm},
    {"minerva-7b", kSmollm},
    {"falcon", kFalcon},
    {"llama-bpe", kLlama3, true, true},
    {"llama3", kLlama3, true, true},
    {"llama-v3", kLlama3, true, true},
    {"falcon3", kLlama3, true, true},
    {"falcon-h1", kLlama3, true, true},
    {"pixtral", kLlama3, true, true},
    {"midm-2.0", kLlama3, true, true},
    {"lfm2", kLlama3, true, true},
    {"dbrx", kLlama3},
    {"smaug-bpe", kLlama3},
    {"glm4", kLlama3},
    {"chatglm-bpe", kLlama3},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", kQwen2},
    {"hunyuan", kQwen2},
    {"grok-2", kQwen2},
    {"solar-open", kQwen2},
    {"kormo", kQwen2},
    {"f2llmv2", kQwen2},
};

enum class Class : uint8_t { kEnd, kLetter, kNumber, kSpace, kPunctuation, kOther };

struct Char {
  uint32_t code = 0;
  uint8_t bytes = 0;
  Class cls = Class::kEnd;
  bool word() const { return cls == Class::kLetter || cls == Class::kNumber; }
  bool other() const { return cls == Class::kOther || cls == Class::kPunctuation; }
  bool newline() const { return code == '\n' || code == '\r'; }
};

// Unicode's White_Space, which is what \s means to the engines that the models were trained with.
bool is_space(uint32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

Class classify(uint32_t code) {
  if (is_space(code)) return Class::kSpace;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Class::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Class::kNumber;
  if (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO)
    return Class::kPunctuation;
  return Class::kOther;
}

// One stretch of text, seen as characters. A code of 0 stands for the end and for stray bytes as
// well as for NUL: no rule asks for NUL.
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
  // The end of the run of characters from i on for which `in` holds, at most `most` of them.
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

// 's|'t|'re|'ve|'m|'ll|'d: where it ends, or i if there is none. Without regard to case, U+017F
// (long s) is an s.
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

// \s+(?!\S)|\s+ : white space up to the text's end, else all but its last character if that leaves
// any.
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
  // \s*[\r\n]+ takes white space up to the last line break in it.
  size_t after_break = i;
  text.run(i, [&, at = i](const Char& d) mutable {
    at += d.bytes;
    if (d.newline()) after_break = at;
    return d.cls == Class::kSpace;
  });
  return after_break > i ? after_break : space_end(text, i);
}

// A split that only looks for runs of one kind: the end of the run, or of what lies before the next
// one.
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

size_t stretch_end(Split split, const Chars& text, size_t i) {
  const auto is_number = [](const Char& c) { return c.cls == Class::kNumber; };
  const auto is_punctuation = [&](const Char& c) {
    const bool ascii = c.code < 0x80 && c.code != 0;
    return c.cls == Class::kPunctuation ||
           (ascii && std::string_view("$+<=>^~|").find(static_cast<char>(c.code)) !=
                         std::string_view::npos) ||
           (c.code == '`' && split == Split::kFalconPunctuation);
  };
  switch (split) {
    case Split::kNone:
      return text.size();
    case Split::kGpt2:
      return gpt2_end(text, i);
    case Split::kLlama3:
      return llama3_end(text, i, 3);
    case Split::kQwen2:
      return llama3_end(text, i, 1);
    case Split::kNumber:
      return run_end(text, i, is_number, 1);
    case Split::kNumbers:
      return run_end(text, i, is_number);
    case Split::kThreeDigits:
      return three_digits_end(text, i);
    case Split::kPunctuation:
    case Split::kFalconPunctuation:
      return run_end(text, i, is_punctuation);
  }
  return text.size();
}

void nest(std::span<const Split> splits, std::string_view text,
          base::FunctionRef<void(std::string_view)> stretch) {
  if (splits.empty() || splits[0] == Split::kNone) {
    stretch(text);
    return;
  }
  split_text(splits[0], text,
             [&](std::string_view part) { nest(splits.subspan(1), part, stretch); });
}

}  // namespace

void split_text(Split split, std::string_view text,
                base::FunctionRef<void(std::string_view)> stretch) {
  const Chars chars(text);
  for (size_t i = 0; i < text.size();) {
    const size_t end = stretch_end(split, chars, i);
    KVICK_CHECK(end > i, "a split found nothing at byte {}", i);
    stretch(text.substr(i, end - i));
    i = end;
  }
}

const PreTokenizer* find_pre_tokenizer(std::string_view name) {
  for (const PreTokenizer& pre : kKnown)
    if (pre.name == name) return &pre;
  return nullptr;
}

std::string pre_tokenizer_names() {
  std::vector<std::string_view> names;
  for (const PreTokenizer& pre : kKnown)
    if (!pre.name.empty()) names.push_back(pre.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

void pre_tokenize(const PreTokenizer& pre, std::string_view text,
                  base::FunctionRef<void(std::string_view)> stretch) {
  if (!text.empty()) nest(pre.splits, text, stretch);
}

}  // namespace kvick::text
