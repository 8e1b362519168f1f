#pragma once
// Intersection and complement of automata over characters.

#include "base/result.h"
#include "text/grammar/char_nfa.h"

namespace kvick::text {

// Returns an automaton of the texts that both a and b match. Error: too many states.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b);
// Returns an automaton of the texts that nfa does not match. Error: too many states.
base::Result<CharNfa> other_texts(const CharNfa& nfa);
// Returns whether any text matches.
bool takes_any(const CharNfa& nfa);

}  // namespace kvick::text
