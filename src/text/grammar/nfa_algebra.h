#pragma once
// Intersection and complement of automata over characters.

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "text/grammar/char_nfa.h"

namespace kvick::text {

// Returns an automaton of the texts that both a and b match. Error: too many states.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b);
// Returns an automaton of the texts that nfa does not match. Error: too many states.
base::Result<CharNfa> other_texts(const CharNfa& nfa);
// Returns an automaton of the same texts whose states have no `boundaries` and no `behind`. Words
// are of ASCII's letters, digits and '_'. behind_word: the texts follow a character of a
// word. Error: too many states.
base::Result<CharNfa> without_boundaries(const CharNfa& nfa, bool behind_word);
// Returns whether any text matches.
bool takes_any(const CharNfa& nfa);
// Returns whether the text matches. budget: reduced by the number of states that are visited;
// nullopt: it does not suffice.
std::optional<bool> takes(const CharNfa& nfa, std::string_view text, size_t& budget);

}  // namespace kvick::text
