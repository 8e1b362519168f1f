// Compiles the rules of GBNF to a grammar over bytes.
#include <algorithm>

#include "text/forms/forms.h"
#include "text/forms/gbnf.h"

namespace kvick::text {
namespace {

using base::fail;
using Kind = GbnfPart::Kind;

constexpr GrammarWords kWords = {.nothing = "no text matches it",
                                 .itself = "a rule begins with itself",
                                 .alternatives = "use fewer of them"};

// Finds the rules that each rule may begin with. A rule that may begin with itself is refused:
// expanding it never reaches a byte.
class Beginnings {
 public:
  explicit Beginnings(const Gbnf& gbnf) : gbnf_(gbnf), nullable_(gbnf.rules.size()) {
    std::vector<std::vector<uint32_t>> callers(gbnf.rules.size());
    std::vector<uint32_t> waiting;
    for (uint32_t rule = 0; rule < gbnf.rules.size(); ++rule) {
      find_callers(gbnf.rules[rule].body, rule, callers);
      waiting.push_back(rule);
    }
    while (!waiting.empty()) {
      const uint32_t rule = waiting.back();
      waiting.pop_back();
      std::vector<uint32_t> unused;
      if (nullable_[rule] || !begins(gbnf.rules[rule].body, unused)) continue;
      nullable_[rule] = true;
      waiting.insert(waiting.end(), callers[rule].begin(), callers[rule].end());
    }
  }

  // Returns a rule that may begin with itself, if there is one.
  std::optional<uint32_t> circle() const {
    std::vector<std::vector<uint32_t>> first(gbnf_.rules.size());
    for (uint32_t rule = 0; rule < first.size(); ++rule) {
      begins(gbnf_.rules[rule].body, first[rule]);
      std::sort(first[rule].begin(), first[rule].end());
      first[rule].erase(std::unique(first[rule].begin(), first[rule].end()), first[rule].end());
    }
    std::vector<Colour> colours(first.size());
    for (uint32_t rule = 0; rule < first.size(); ++rule)
      if (const auto found = circle_from(rule, first, colours)) return found;
    return std::nullopt;
  }

 private:
  enum class Colour : uint8_t { kNew, kOpen, kDone };

  static void find_callers(const GbnfPart& part, uint32_t rule,
                           std::vector<std::vector<uint32_t>>& callers) {
    std::vector<uint32_t>& known = callers[part.rule];
    if (part.kind == Kind::kRule && (known.empty() || known.back() != rule)) known.push_back(rule);
    for (const GbnfPart& inside : part.parts) find_callers(inside, rule, callers);
  }

  // Returns whether the part may be empty, and adds the rules that it may begin with.
  bool begins(const GbnfPart& part, std::vector<uint32_t>& rules) const {
    const auto inside = [&](const GbnfPart& one) { return begins(one, rules); };
    switch (part.kind) {
      case Kind::kText:
        return part.text.empty();
      case Kind::kChars:
        return false;
      case Kind::kRule:
        rules.push_back(part.rule);
        return nullable_[part.rule];
      case Kind::kSequence:
        return std::all_of(part.parts.begin(), part.parts.end(), inside);
      case Kind::kAlternatives:
        return std::count_if(part.parts.begin(), part.parts.end(), inside) > 0;
      case Kind::kRepeat:
        break;
    }
    if (part.most == 0U) return true;
    return inside(part.parts[0]) || part.least == 0;
  }

  std::optional<uint32_t> circle_from(uint32_t rule,
                                      const std::vector<std::vector<uint32_t>>& first,
                                      std::vector<Colour>& colours) const {
    if (colours[rule] == Colour::kDone) return std::nullopt;
    if (colours[rule] == Colour::kOpen) return rule;
    colours[rule] = Colour::kOpen;
    for (const uint32_t next : first[rule])
      if (const auto found = circle_from(next, first, colours)) return found;
    colours[rule] = Colour::kDone;
    return std::nullopt;
  }

  const Gbnf& gbnf_;
  std::vector<bool> nullable_;  // [rules]
};

class Compiler {
 public:
  explicit Compiler(const Gbnf& gbnf) : gbnf_(gbnf), chars_(grammar_) {}
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  GrammarBuilder compile() && {
    ids_.resize(gbnf_.rules.size());
    ids_[gbnf_.root] = grammar_.rule();
    for (uint32_t i = 0; i < ids_.size(); ++i)
      if (i != gbnf_.root) ids_[i] = grammar_.rule();
    for (uint32_t i = 0; i < ids_.size(); ++i)
      add(gbnf_.rules[i].body, grammar_.start(ids_[i]), grammar_.end(ids_[i]));
    return std::move(grammar_);
  }

 private:
  // Adds the part between two states. It adds no transition into `from` or out of `to`, so that
  // several parts may share both. The last part of a rule ends in the rule's end state, so that its
  // call is a tail call, which needs no level.
  void add(const GbnfPart& part, StateId from, StateId to) {
    if (grammar_.full()) return;
    switch (part.kind) {
      case Kind::kText:
        return grammar_.literal(from, part.text, to);
      case Kind::kChars:
        return chars_.one_of(part.chars, from, to);
      case Kind::kRule:
        return grammar_.call(from, ids_[part.rule], to);
      case Kind::kAlternatives:
        for (const GbnfPart& one : part.parts) add(one, from, to);
        return;
      case Kind::kSequence:
        return add_sequence(part.parts, from, to);
      case Kind::kRepeat:
        return add_repeat(part, from, to);
    }
  }

  void add_sequence(const std::vector<GbnfPart>& parts, StateId from, StateId to) {
    if (parts.empty()) return grammar_.skip(from, to);
    for (size_t i = 0; i < parts.size(); ++i) {
      const StateId next = i + 1 == parts.size() ? to : grammar_.state();
      add(parts[i], from, next);
      from = next;
    }
  }

  void add_repeat(const GbnfPart& part, StateId from, StateId to) {
    const GbnfPart& one = part.parts[0];
    const uint32_t count = part.most.value_or(part.least);
    if (count == 0 && part.most) return grammar_.skip(from, to);
    for (uint32_t i = 0; i < count && !grammar_.full(); ++i) {
      if (i >= part.least) grammar_.skip(from, to);
      const StateId next = part.most && i + 1 == count ? to : grammar_.state();
      add(one, from, next);
      from = next;
    }
    if (part.most) return;
    const StateId loop = grammar_.state();
    grammar_.skip(from, loop);
    add(one, loop, loop);
    grammar_.skip(loop, to);
  }

  const Gbnf& gbnf_;
  GrammarBuilder grammar_;
  TextChars chars_;
  std::vector<RuleId> ids_;  // [rules of gbnf_]
};

}  // namespace

base::Result<Grammar> gbnf_grammar(std::string_view text, const ByteSet& speakable) {
  auto gbnf = parse_gbnf(text);
  if (!gbnf.ok()) return fail("the grammar cannot be read: {}", gbnf.error().message);
  if (const auto rule = Beginnings(*gbnf).circle())
    return fail(
        "the grammar cannot be used: its rule '{}' at {} begins with itself; write it as a "
        "repetition, as in a ::= b (\"+\" b)*",
        gbnf->rules[*rule].name, gbnf->rules[*rule].place);
  auto grammar = Compiler(*gbnf).compile().finish(speakable, kWords);
  if (!grammar.ok()) return fail("the grammar cannot be used: {}", grammar.error().message);
  return grammar;
}

}  // namespace kvick::text
