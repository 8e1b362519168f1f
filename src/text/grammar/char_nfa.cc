#include "text/grammar/char_nfa.h"

#include <algorithm>

#include "text/grammar/char_classes.h"
#include "text/grammar/nfa_algebra.h"
#include "text/grammar/nfa_pieces.h"
#include "text/grammar/pattern_reader.h"

namespace kvick::text {
namespace {

using base::fail;
using base::Result;
using base::Status;

constexpr uint32_t kMostNesting = 50;
constexpr uint32_t kMostLooks = 8;  // look-aheads

class Parser : private PatternReader, private NfaPieces {
 public:
  Parser(std::string_view pattern, PatternKind kind) : PatternReader(pattern, kind) {}

  Result<CharNfa> parse() {
    KVICK_TRY_VOID(check_utf8());
    ignores_case_ = take("(?i)");
    KVICK_TRY_VOID(top_alternatives(true));
    if (at_ < pattern_.size()) return wrong("')' closes nothing");
    if (boundaries_) return without_boundaries(nfa_, false);
    return std::move(nfa_);
  }

 private:
  Status<> top_alternatives(bool all) {
    nfa_.start = state();
    nfa_.end = state();
    do {
      KVICK_TRY_VOID(top_alternative());
      if (full()) return fail("it becomes too large; use smaller repetitions");
    } while (all && take('|'));
    return base::Done{};
  }

  Status<> top_alternative() {
    const bool marked = (!anchored_ || at_start_) && (take('^') || (python_ && take("\\A")));
    // Python's re refuses (?i) after ^; Rust's regex, which Pydantic uses, allows it.
    if (at_ == 1 && marked && !python_ && take("(?i)")) ignores_case_ = true;
    const size_t first = at_;
    KVICK_TRY(const Piece body, sequence(0));
    const uint32_t before = state(), behind = state();
    if (!marked && !python_ && !anchored_) loop_any(before);
    skip(nfa_.start, before);
    skip(before, body.start);
    skip(behind, nfa_.end);
    const bool last = at_look() || at_last_group();
    uint32_t end = body.end;
    if (last) {
      const bool at_start = at_ == first && (marked || at_start_);
      KVICK_TRY(CharNfa rest, at_look() ? behind_look(at_start) : last_group(at_start));
      const Piece piece = insert(std::move(rest));
      skip(end, piece.start);
      end = piece.end;
    }
    skip(end, behind);
    const bool to_end = take('$') || (python_ && take("\\Z")) || python_ || to_end_;
    if (!at_end() && peek() != '|' && peek() != ')') return wrong("'$' is not at the end");
    if (!to_end && !last) loop_any(behind);
    return base::Done{};
  }

  bool at_look() const { return !python_ && (is_next("(?=") || is_next("(?!")); }

  // At a look-ahead: returns the texts from here on that satisfy it and match what follows it.
  Result<CharNfa> behind_look(bool at_start) {
    if (++looks_ > kMostLooks) return unsupported("one more look-ahead");
    const bool wanted = take("(?=");
    if (!wanted) take("(?!");
    const bool earlier = std::exchange(boundaries_, false);
    KVICK_TRY(const CharNfa ahead, from_here(true, at_start, false));
    if (!take(')')) return wrong("a group is not closed");
    KVICK_TRY(const CharNfa body, from_here(false, at_start, to_end_));
    if (boundaries_) return by_last_character(ahead, wanted, body);
    boundaries_ = earlier;
    return both_of(ahead, wanted, body);
  }

  // Returns the texts of `body` that `ahead` matches, or those that it does not.
  static Result<CharNfa> both_of(const CharNfa& ahead, bool wanted, const CharNfa& body) {
    if (wanted) return common_texts(ahead, body);
    KVICK_TRY(const CharNfa others, other_texts(ahead));
    return common_texts(others, body);
  }

  // Does the same where word boundaries may be the first thing in them, so that it matters whether
  // the character before belongs to a word.
  Result<CharNfa> by_last_character(const CharNfa& ahead, bool wanted, const CharNfa& body) const {
    Parser joined(pattern_, PatternKind::kSearched);
    joined.nfa_.start = joined.state();
    joined.nfa_.end = joined.state();
    for (const bool in_word : {false, true}) {
      KVICK_TRY(const CharNfa some, without_boundaries(ahead, in_word));
      KVICK_TRY(const CharNfa rest, without_boundaries(body, in_word));
      KVICK_TRY(CharNfa both, both_of(some, wanted, rest));
      const Piece piece = joined.insert(std::move(both));
      joined.nfa_.states[joined.nfa_.start].behind.emplace_back(in_word, piece.start);
      joined.skip(piece.end, joined.nfa_.end);
    }
    return std::move(joined.nfa_);
  }

  // Returns the offset of the bracket that closes the group beginning here, or npos.
  size_t group_end() const {
    size_t open = 0;
    bool in_class = false;
    for (size_t at = at_; at < pattern_.size(); ++at) {
      const char c = pattern_[at];
      if (c == '\\')
        ++at;
      else if (in_class || c == '[')
        in_class = c != ']';
      else if (c == '(')
        ++open;
      else if (c == ')' && --open == 0)
        return at;
    }
    return pattern_.npos;
  }

  // Whether a group begins here that ends its alternative and contains a look-ahead or '$'.
  bool at_last_group() const {
    if (python_ || peek() != '(' || at_look()) return false;
    const size_t end = group_end();
    if (end == pattern_.npos) return false;
    const std::string_view inside = pattern_.substr(at_, end - at_);
    const auto has = [&](std::string_view part) { return inside.find(part) != inside.npos; };
    if (!has("$") && !has("(?=") && !has("(?!")) return false;
    return std::string_view("$|)").find(pattern_.substr(end + 1, 1)) != inside.npos;
  }

  Result<CharNfa> last_group(bool at_start) {
    const bool to_end = to_end_ || pattern_.substr(group_end() + 1).starts_with('$');
    if (nested_ >= kMostNesting) return wrong("groups are nested too deeply");
    if (!take_group()) return unsupported("a look-around or a flag");
    KVICK_TRY(CharNfa rest, from_here(true, at_start, to_end));
    if (!take(')')) return wrong("a group is not closed");
    return rest;
  }

  // Parses what comes next, up to a closing bracket: all alternatives, or only one. to_end: the
  // text must end there, with or without '$'.
  Result<CharNfa> from_here(bool all, bool at_start, bool to_end) {
    Parser inner(pattern_, PatternKind::kSearched);
    inner.at_ = at_;
    inner.ignores_case_ = ignores_case_;
    inner.looks_ = looks_;
    inner.nested_ = nested_ + 1;
    inner.anchored_ = true;
    inner.at_start_ = at_start;
    inner.to_end_ = to_end;
    KVICK_TRY_VOID(inner.top_alternatives(all));
    at_ = inner.at_;
    looks_ = inner.looks_;
    boundaries_ |= inner.boundaries_;
    return std::move(inner.nfa_);
  }

  Result<Piece> alternatives(uint32_t nesting) {
    if (nesting > kMostNesting) return wrong("groups are nested too deeply");
    const uint32_t start = state(), end = state();
    do {
      KVICK_TRY(const Piece one, sequence(nesting));
      skip(start, one.start);
      skip(one.end, end);
    } while (take('|'));
    return Piece{start, end, start};
  }

  Result<Piece> sequence(uint32_t nesting) {
    const uint32_t start = state();
    uint32_t end = start;
    const auto goes_on = [&] {
      return !at_end() && peek() != '|' && peek() != ')' && !at_end_mark() &&
             (nesting > 0 || (!at_look() && !at_last_group()));
    };
    while (goes_on()) {
      if (python_ && is_next("(?#")) {
        KVICK_TRY_VOID(comment());
        continue;
      }
      const bool boundary = is_next("\\b") || is_next("\\B");
      KVICK_TRY(Piece one, boundary ? word_boundary() : atom(nesting));
      if (!boundary) {
        KVICK_TRY(one, repeated(one));
      }
      skip(end, one.start);
      end = one.end;
      if (full()) return fail("it becomes too large; use smaller repetitions");
    }
    if (at_end_mark() && nesting > 0) return unsupported("'$' within a group");
    return Piece{start, end, start};
  }

  bool at_end_mark() const { return peek() == '$' || (python_ && is_next("\\Z")); }

  Result<Piece> word_boundary() {
    const bool changes = is_next("\\b");
    at_ += 2;
    if (at_repetition()) return wrong("a repetition of nothing");
    boundaries_ = true;
    const uint32_t start = state(), end = state();
    nfa_.states[start].boundaries.emplace_back(changes, end);
    return Piece{start, end, start};
  }

  Status<> comment() {
    const size_t end = pattern_.find(')', at_);
    if (end == std::string_view::npos) return wrong("a comment is not closed");
    at_ = end + 1;
    return base::Done{};
  }

  // Takes the beginning of a group. Names of groups are ignored.
  bool take_group() {
    if (take("(?:")) return true;
    const bool behind = is_next("(?<=") || is_next("(?<!");
    if (is_next("(?P<") || (!python_ && is_next("(?<") && !behind)) {
      const size_t end = pattern_.find('>', at_);
      if (end != std::string_view::npos) at_ = end + 1;
      return end != std::string_view::npos;
    }
    return !is_next("(?") && take('(');
  }

  Result<Piece> atom(uint32_t nesting) {
    const bool ignored_case = std::exchange(ignores_case_, ignores_case_ || is_next("(?i:"));
    if (take("(?i:") || take_group()) {
      KVICK_TRY(const Piece inside, alternatives(nesting + 1));
      if (!take(')')) return wrong("a group is not closed");
      ignores_case_ = ignored_case;
      return inside;
    }
    if (peek() == '(')
      return unsupported(python_ ? "a look-around, a flag, a condition or a reference"
                                 : "a look-around or a flag");
    if (take('[')) {
      KVICK_TRY(CharSet set, bracket());
      return one_of(std::move(set));
    }
    if (take('.')) return one_of(any_but_line_ends(python_));
    if (take('\\')) {
      KVICK_TRY(CharSet set, escape(false));
      return one_of(is_single(set) ? with_cases(std::move(set)) : std::move(set));
    }
    if (peek() == '^') return unsupported("'^' other than at the beginning");
    if (at_repetition()) return wrong("a repetition of nothing");
    CharSet set;
    const uint32_t code = character();
    set.add(code, code);
    return one_of(with_cases(std::move(set)));
  }

  // Whether a count begins here. Python takes a brace that begins no count as a character.
  bool at_count() const {
    if (!python_ || peek() != '{') return peek() == '{';
    const size_t end = pattern_.find_first_not_of("0123456789,", at_ + 1);
    if (end == std::string_view::npos || pattern_[end] != '}' || end == at_ + 1) return false;
    const std::string_view inside = pattern_.substr(at_ + 1, end - at_ - 1);
    return std::count(inside.begin(), inside.end(), ',') <= 1;
  }

  bool at_repetition() const {
    return std::string_view("*+?").find(peek()) != std::string_view::npos || at_count();
  }

  Result<Piece> repeated(Piece one) {
    uint32_t least = 1;
    std::optional<uint32_t> most = 1;
    if (take('*')) {
      least = 0;
      most.reset();
    } else if (take('+')) {
      most.reset();
    } else if (take('?')) {
      least = 0;
    } else if (at_count() && take('{')) {
      std::optional<uint32_t> count = number();
      if (!count && python_) count = 0;
      if (!count) return wrong("'{' without a count (write \\{ for the character)");
      least = *count;
      most = take(',') ? number() : count;
      if (!take('}')) return wrong("a repetition is not closed");
      if (least > kMostRepeats || most.value_or(0) > kMostRepeats)
        return wrong(fmt::format("a repetition of more than {}", kMostRepeats));
      if (most && *most < least) return wrong("a repetition whose maximum is below its minimum");
    } else {
      return one;
    }
    take('?');
    return repeat(one, least, most);
  }

  uint32_t looks_ = 0;       // look-aheads so far
  uint32_t nested_ = 0;      // number of parsers around this one
  bool anchored_ = false;    // top-level alternatives match only from where this parser began
  bool at_start_ = false;    // this parser began at the start of the text
  bool boundaries_ = false;  // some \b or \B so far
  bool to_end_ = false;      // top-level alternatives end where the text ends
};

}  // namespace

Result<CharNfa> parse_pattern(std::string_view pattern, PatternKind kind) {
  return Parser(pattern, kind).parse();
}

}  // namespace kvick::text
