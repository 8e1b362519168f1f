#include "text/forms/gbnf.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "text/tokenizer/vocabulary_check.h"
#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

using base::Done;
using base::fail;
using base::Result;
using base::Status;
using Kind = GbnfPart::Kind;

constexpr std::string_view kSpaces = " \t\r\n";

bool is_word(char c) {
  const char low = static_cast<char>(c | 0x20);
  return (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Returns the line and column of the byte offset `at`. Columns are counted in characters.
std::string place_of(std::string_view text, size_t at) {
  const std::string_view before = text.substr(0, at);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_end = before.rfind('\n');
  const std::string_view row = line_end == before.npos ? before : before.substr(line_end + 1);
  const auto column =
      std::count_if(row.begin(), row.end(), [](char c) { return (c & 0xC0) != 0x80; }) + 1;
  return fmt::format("line {}, column {}", line, column);
}

GbnfPart chars_part(CharSet chars) {
  GbnfPart part;
  part.kind = Kind::kChars;
  part.chars = std::move(chars);
  return part;
}

// Returns a sequence or alternatives; a list of one part becomes that part.
GbnfPart list_part(Kind kind, std::vector<GbnfPart> parts) {
  if (parts.size() == 1) return std::move(parts[0]);
  GbnfPart part;
  part.kind = kind;
  part.parts = std::move(parts);
  return part;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Gbnf> parse() {
    if (text_.size() > Gbnf::kMostBytes)
      return fail("it has {} bytes; at most {} are taken", text_.size(), Gbnf::kMostBytes);
    for (size_t at = 0; at < text_.size();) {
      const Utf8 character = decode_utf8(text_.substr(at));
      if (!character.valid) return fail("it is not UTF-8");
      at += character.bytes;
    }
    space();
    while (!at_end()) KVICK_TRY_VOID(rule());
    for (size_t i = 0; i < gbnf_.rules.size(); ++i)
      if (!defined_[i])
        return fail("there is no rule '{}', which {} asks for", gbnf_.rules[i].name,
                    gbnf_.rules[i].place);
    const auto root = by_name_.find("root");
    if (root == by_name_.end()) return fail("there is no rule 'root', where answers begin");
    gbnf_.root = root->second;
    return std::move(gbnf_);
  }

 private:
  template <typename... Args>
  base::Error wrong(fmt::format_string<Args...> what, Args&&... args) const {
    return fail("{}: {}", place_of(text_, at_), fmt::format(what, std::forward<Args>(args)...));
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view token) {
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  // Returns the offset of the next character that is neither white space nor part of a comment.
  size_t behind_space(size_t at) const {
    for (; at < text_.size(); ++at) {
      if (text_[at] == '#') at = std::min(text_.find('\n', at), text_.size());
      if (at < text_.size() && kSpaces.find(text_[at]) == kSpaces.npos) break;
    }
    return std::min(at, text_.size());
  }
  void space() { at_ = behind_space(at_); }

  size_t word_end() const {
    size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    return end;
  }
  std::string_view word() {
    const size_t begin = at_;
    at_ = word_end();
    return text_.substr(begin, at_ - begin);
  }
  bool at_rule() const {
    const size_t end = word_end();
    return end > at_ && text_.substr(behind_space(end)).starts_with("::=");
  }

  // Returns the index of the named rule, which may be defined later. place: byte offset of this
  // use; kept for a rule's first use.
  Result<uint32_t> rule_of(std::string_view name, size_t place) {
    const auto [found, is_new] =
        by_name_.try_emplace(std::string(name), static_cast<uint32_t>(gbnf_.rules.size()));
    if (!is_new) return found->second;
    if (gbnf_.rules.size() >= Gbnf::kMostRules)
      return wrong("more than {} rules", Gbnf::kMostRules);
    gbnf_.rules.push_back({.name = found->first, .place = place_of(text_, place), .body = {}});
    defined_.push_back(false);
    return found->second;
  }

  Status<> rule() {
    const size_t place = at_;
    if (!at_rule()) return wrong("a rule begins with its name and '::='");
    const std::string_view name = word();
    KVICK_TRY(const uint32_t index, rule_of(name, place));
    if (defined_[index]) {
      at_ = place;
      return wrong("the rule '{}' is there already ({})", name, gbnf_.rules[index].place);
    }
    defined_[index] = true;
    gbnf_.rules[index].place = place_of(text_, place);
    space();
    take("::=");
    KVICK_TRY(GbnfPart body, alternatives(0));
    gbnf_.rules[index].body = std::move(body);
    if (peek() == ')') return wrong("')' closes nothing");
    return Done{};
  }

  Result<GbnfPart> alternatives(uint32_t nesting) {
    std::vector<GbnfPart> parts;
    do {
      KVICK_TRY(GbnfPart one, sequence(nesting));
      parts.push_back(std::move(one));
    } while (take("|"));
    return list_part(Kind::kAlternatives, std::move(parts));
  }

  Result<GbnfPart> sequence(uint32_t nesting) {
    std::vector<GbnfPart> parts;
    for (space(); !at_end() && peek() != '|' && peek() != ')' && !at_rule(); space()) {
      KVICK_TRY(GbnfPart one, element(nesting));
      space();
      KVICK_TRY(one, repeated(std::move(one)));
      parts.push_back(std::move(one));
    }
    return list_part(Kind::kSequence, std::move(parts));
  }

  Result<GbnfPart> element(uint32_t nesting) {
    if (peek() == '"') return literal();
    if (peek() == '[') return char_class();
    if (peek() == '(') return group(nesting + 1);
    if (take(".")) return chars_part(CharSet::all());
    if (is_word(peek())) {
      const size_t place = at_;
      GbnfPart part;
      part.kind = Kind::kRule;
      KVICK_TRY(part.rule, rule_of(word(), place));
      return part;
    }
    if (peek() == '<' || peek() == '!')
      return wrong("tokens in a grammar are not supported; write their text in quotes");
    const Utf8 character = decode_utf8(text_.substr(at_));
    return wrong("{} begins no part of a rule", show_piece(text_.substr(at_, character.bytes)));
  }

  Result<GbnfPart> group(uint32_t nesting) {
    if (nesting > Gbnf::kMostNesting)
      return wrong("groups are nested more than {} deep", Gbnf::kMostNesting);
    const size_t open = at_++;
    KVICK_TRY(GbnfPart inside, alternatives(nesting));
    if (take(")")) return inside;
    at_ = open;
    return wrong("a group is not closed");
  }

  uint32_t number() {
    uint32_t value = 0;
    for (; is_digit(peek()); ++at_)
      value = std::min(value * 10 + static_cast<uint32_t>(peek() - '0'), Gbnf::kMostRepeats + 1);
    return value;
  }

  // Returns the part, wrapped in the repetition that follows it, if any.
  Result<GbnfPart> repeated(GbnfPart one) {
    GbnfPart repeat;
    repeat.kind = Kind::kRepeat;
    if (take("+")) {
      repeat.least = 1;
    } else if (take("?")) {
      repeat.most = 1;
    } else if (peek() == '{') {
      KVICK_TRY_VOID(counts(repeat));
    } else if (!take("*")) {
      return one;
    }
    space();
    if (!at_end() && std::string_view("*+?{").find(peek()) != std::string_view::npos)
      return wrong("a repetition of a repetition; put the inner one in parentheses");
    repeat.parts.push_back(std::move(one));
    return repeat;
  }

  Status<> counts(GbnfPart& repeat) {
    const size_t open = at_++;
    space();
    const bool has_least = is_digit(peek());
    repeat.least = number();
    repeat.most = repeat.least;
    space();
    if (take(",")) {
      space();
      const bool has_most = is_digit(peek());
      repeat.most = has_most ? std::optional(number()) : std::nullopt;
      if (!has_least && !has_most) return wrong("a repetition needs a count, as in {{2,5}}");
      space();
    } else if (!has_least) {
      return wrong("a repetition needs a count, as in {{2,5}}");
    }
    if (!take("}")) return wrong("'}}' is missing behind the counts of a repetition");
    const bool below = repeat.most && *repeat.most < repeat.least;
    const bool many = std::max(repeat.least, repeat.most.value_or(0)) > Gbnf::kMostRepeats;
    if (below || many) at_ = open;
    if (below) return wrong("a repetition whose maximum is below its minimum");
    if (many) return wrong("a repetition of more than {}", Gbnf::kMostRepeats);
    return Done{};
  }

  Result<GbnfPart> literal() {
    const size_t open = at_++;
    GbnfPart part;
    part.kind = Kind::kText;
    while (!take("\"")) {
      if (at_end()) {
        at_ = open;
        return wrong("a text in quotes is not closed");
      }
      KVICK_TRY(const uint32_t code, character());
      append_utf8(code, part.text);
    }
    return part;
  }

  Result<GbnfPart> char_class() {
    const size_t open = at_++;
    const bool negated = take("^");
    CharSet set;
    for (uint32_t items = 0; !take("]"); ++items) {
      if (at_end() || items == Gbnf::kMostClassItems) {
        const bool many = !at_end();
        at_ = open;
        if (many) return wrong("a class of more than {} parts", Gbnf::kMostClassItems);
        return wrong("a class is not closed");
      }
      const size_t place = at_;
      KVICK_TRY(const uint32_t first, character());
      uint32_t last = first;
      const bool is_range = peek() == '-' && !text_.substr(at_).starts_with("-]");
      if (is_range) {
        ++at_;
        if (at_end()) return wrong("a class is not closed");
        KVICK_TRY(last, character());
      }
      if (last < first) {
        at_ = place;
        return wrong("a range whose end is before its beginning");
      }
      set.add(first, last);
    }
    return chars_part(negated ? CharSet::all().without(set) : std::move(set));
  }

  // Reads the next character, which may be written as an escape.
  Result<uint32_t> character() {
    if (!take("\\")) {
      const Utf8 one = decode_utf8(text_.substr(at_));
      at_ += one.bytes;
      return one.code;
    }
    static constexpr std::string_view kNames = "nrt", kCodes = "\n\r\t", kHex = "xuU";
    const char name = peek();
    if (const size_t known = kNames.find(name); known != kNames.npos) {
      ++at_;
      return static_cast<uint32_t>(kCodes[known]);
    }
    if (const size_t kind = kHex.find(name); kind != kHex.npos) return hex(2U << kind);
    const bool punctuation = name > ' ' && name < 0x7F && std::isalnum(name) == 0;
    if (!punctuation) return wrong("a backslash with nothing that it escapes");
    ++at_;
    return static_cast<uint32_t>(name);
  }

  Result<uint32_t> hex(uint32_t digits) {
    ++at_;
    uint32_t code = 0;
    for (; digits > 0; --digits, ++at_) {
      const char low = static_cast<char>(peek() | 0x20);
      if ((!is_digit(peek()) && (low < 'a' || low > 'f')) || code > CharSet::kLast)
        return wrong("an escape needs {} more hexadecimal digits of a character", digits);
      code = code * 16 + static_cast<uint32_t>(is_digit(peek()) ? peek() - '0' : low - 'a' + 10);
    }
    if (code > CharSet::kLast || (code >= 0xD800 && code <= 0xDFFF))
      return wrong("an escape stands for no character");
    return code;
  }

  std::string_view text_;
  size_t at_ = 0;
  Gbnf gbnf_;
  std::vector<bool> defined_;  // [rules]
  std::map<std::string, uint32_t, std::less<>> by_name_;
};

}  // namespace

Result<Gbnf> parse_gbnf(std::string_view text) { return Parser(text).parse(); }

}  // namespace kvick::text
