#pragma once
// Intersection and complement of automata over characters.

#include "base/result.h"
#include "text/grammar/char_nfa.h"

namespace kvick::text {

// Returns an automaton of the texts that both a and b match. Error: too many states.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b);
// Returns an automaton of the texts that nfa does not match. Error: too many states.
base::Result<CharNfa> other_texts(const CharNfa& nfa);
// Returns an automaton of the same texts whose states have no `boundaries`. Words are of ASCII's
// letters, digits and '_'. Error: too many states.
base::Result<CharNfa> without_boundaries(const CharNfa& nfa);
// Returns whether any text matches.
bool takes_any(const CharNfa& nfa);

}  // namespace kvick::text
