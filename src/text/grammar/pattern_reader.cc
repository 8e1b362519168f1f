#include "text/grammar/pattern_reader.h"

#include <algorithm>

#include "text/grammar/char_classes.h"
#include "text/tokenizer/vocabulary_check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

constexpr uint32_t kMostClassItems = 1000;

}  // namespace

Status<> PatternReader::check_utf8() const {
  for (size_t at = 0; at < pattern_.size();) {
    const Utf8 character = decode_utf8(pattern_.substr(at));
    if (!character.valid) return fail("it is not UTF-8");
    at += character.bytes;
  }
  return base::Done{};
}

base::Error PatternReader::wrong(std::string_view what) const {
  return fail("{} at byte {} of {}", what, at_, show_piece(pattern_));
}

base::Error PatternReader::unsupported(std::string_view what) const {
  return wrong(fmt::format("{} is not supported", what));
}

uint32_t PatternReader::character() {
  const Utf8 one = decode_utf8(pattern_.substr(at_));
  at_ += one.bytes;
  return one.code;
}

std::optional<uint32_t> PatternReader::number() {
  if (peek() < '0' || peek() > '9') return std::nullopt;
  uint32_t value = 0;
  for (; peek() >= '0' && peek() <= '9'; ++at_)
    value = std::min(value * 10 + static_cast<uint32_t>(peek() - '0'), kMostRepeats + 1);
  return value;
}

bool PatternReader::is_single(const CharSet& set) {
  return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second;
}

CharSet PatternReader::with_cases(CharSet set) const {
  return ignores_case_ ? with_other_cases(set, python_) : set;
}

Result<CharSet> PatternReader::bracket() {
  const bool negated = take('^');
  CharSet set, letters;  // named classes; characters and their ranges
  uint32_t items = 0;
  for (bool is_first = true; (is_first && python_) || !take(']'); is_first = false) {
    if (at_end()) return wrong("a class is not closed");
    if (++items > kMostClassItems)
      return wrong(fmt::format("a class of more than {} parts", kMostClassItems));
    KVICK_TRY(const CharSet first, class_item());
    if (peek() != '-' || pattern_.substr(at_).starts_with("-]")) {
      (is_single(first) ? letters : set).add(first);
      continue;
    }
    ++at_;
    if (at_end()) return wrong("a class is not closed");
    KVICK_TRY(const CharSet last, class_item());
    if (!is_single(first) || !is_single(last) || last < first)
      return wrong("a range whose end is before its beginning");
    letters.add(first.ranges()[0].first, last.ranges()[0].first);
  }
  set.add(with_cases(std::move(letters)));
  return negated ? CharSet::all().without(set) : set;
}

Result<CharSet> PatternReader::class_item() {
  if (take('\\')) return escape(true);
  CharSet set;
  const uint32_t code = character();
  set.add(code, code);
  return set;
}

Result<CharSet> PatternReader::escape(bool in_class) {
  if (at_end()) return wrong("a backslash is the last character");
  const char name = peek();
  if (std::string_view("dDwWsS").find(name) != std::string_view::npos) {
    ++at_;
    return class_of(name, python_);
  }
  std::string_view rest = pattern_.substr(at_);
  const auto category = python_ ? std::nullopt : take_category(rest);
  at_ = pattern_.size() - rest.size();
  if (category && ignores_case_) return unsupported("\\p beside (?i)");
  if (category) return *category;
  static constexpr std::string_view kNames = "nrtfv0", kCodes("\n\r\t\f\v\0", 6);
  CharSet set;
  uint32_t code = 0;
  if (in_class && take('b')) {
    code = '\b';
  } else if (const size_t known = kNames.find(name); known != std::string_view::npos) {
    code = static_cast<uint8_t>(kCodes[known]);
    ++at_;
    if (python_ && name == '0' && peek() >= '0' && peek() <= '9')
      return unsupported("an octal escape");
  } else if (python_ && take('a')) {
    code = '\a';
  } else if (name == 'x' || name == 'u' || (name == 'U' && python_)) {
    KVICK_TRY(code, hex_escape());
  } else if (name == 'c' && !python_ && at_ + 1 < pattern_.size()) {
    code = static_cast<uint8_t>(pattern_[at_ + 1]) & 0x1FU;
    at_ += 2;
  } else if ((name >= '1' && name <= '9') || ((name | 0x20) >= 'a' && (name | 0x20) <= 'z')) {
    return unsupported(fmt::format("\\{}", name));
  } else {
    code = character();
  }
  set.add(code, code);
  return set;
}

Result<uint32_t> PatternReader::hex_escape() {
  const bool braces = !python_ && is_next("u{");
  size_t digits = peek() == 'x' ? 2 : peek() == 'u' ? 4 : 8;
  at_ += braces ? 2 : 1;
  if (braces) digits = pattern_.find('}', at_) - at_;
  uint32_t code = 0;
  for (size_t i = 0; i < digits; ++i, ++at_) {
    const char c = static_cast<char>(peek() | 0x20);
    const bool is_digit = peek() >= '0' && peek() <= '9';
    if ((!is_digit && (c < 'a' || c > 'f')) || code > CharSet::kLast)
      return wrong("an escape needs hexadecimal digits");
    code = code * 16 + static_cast<uint32_t>(is_digit ? peek() - '0' : c - 'a' + 10);
  }
  if (braces && !take('}')) return wrong("an escape is not closed");
  if (code > CharSet::kLast || (code >= 0xD800 && code <= 0xDFFF))
    return unsupported("half a character");
  return code;
}

}  // namespace kvick::text
