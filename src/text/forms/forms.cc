#include "text/forms/forms.h"

#include <map>

#include "text/grammar/char_nfa.h"

namespace kvick::text {
namespace {

using base::fail;

constexpr GrammarWords kRegexWords = {.nothing = "no text matches it",
                                      .itself = "it begins with itself",
                                      .alternatives = "use fewer of them, or guided_choice"};
constexpr GrammarWords kChoiceWords = {.nothing = "the vocabulary can spell none of them",
                                       .itself = "they begin with themselves",
                                       .alternatives = "use fewer of them"};

GrammarBuilder builder_of(const CharNfa& nfa) {
  GrammarBuilder grammar;
  TextChars chars(grammar);
  const RuleId whole = grammar.rule();
  std::vector<StateId> states(nfa.states.size());
  for (StateId& state : states) state = grammar.state();
  grammar.skip(grammar.start(whole), states[nfa.start]);
  grammar.skip(states[nfa.end], grammar.end(whole));
  for (size_t i = 0; i < states.size() && !grammar.full(); ++i) {
    for (const uint32_t to : nfa.states[i].skips) grammar.skip(states[i], states[to]);
    for (const auto& [set, to] : nfa.states[i].edges) chars.one_of(set, states[i], states[to]);
  }
  return grammar;
}

}  // namespace

base::Result<Grammar> regex_grammar(std::string_view regex, const ByteSet& speakable) {
  if (regex.size() > kMostRegexBytes)
    return fail("the regular expression has {} bytes; at most {} are taken", regex.size(),
                kMostRegexBytes);
  auto nfa = parse_pattern(regex, PatternKind::kWhole);
  if (!nfa.ok()) return fail("the regular expression cannot be read: {}", nfa.error().message);
  auto grammar = builder_of(*nfa).finish(speakable, kRegexWords);
  if (!grammar.ok())
    return fail("the regular expression cannot be used: {}", grammar.error().message);
  return grammar;
}

base::Result<Grammar> choice_grammar(const std::vector<std::string>& choices,
                                     const ByteSet& speakable) {
  if (choices.empty() || choices.size() > kMostFormChoices)
    return fail("there are {} choices; from 1 to {} are taken", choices.size(), kMostFormChoices);
  GrammarBuilder grammar;
  const RuleId whole = grammar.rule();
  // Choices share their common prefixes (a trie), so that the automaton follows one state at a
  // time.
  std::map<std::pair<StateId, char>, StateId> ways;
  for (const std::string& choice : choices) {
    if (choice.empty()) return fail("a choice is empty");
    StateId at = grammar.start(whole);
    for (const char byte : choice) {
      const auto [way, is_new] = ways.try_emplace({at, byte}, StateId{});
      if (is_new) {
        way->second = grammar.state();
        grammar.byte(at, byte, way->second);
      }
      at = way->second;
      if (grammar.full()) break;
    }
    grammar.skip(at, grammar.end(whole));
  }
  auto made = std::move(grammar).finish(speakable, kChoiceWords);
  if (!made.ok()) return fail("the choices cannot be used: {}", made.error().message);
  return made;
}

}  // namespace kvick::text
