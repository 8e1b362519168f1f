#pragma once
// Automata of texts that several regular expressions match.

#include "base/result.h"
#include "text/grammar/char_nfa.h"

namespace kvick::text {

// An automaton of the texts that both a and b match. Error: it would have too many states.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b);
// An automaton of the texts that nfa does not match. Error: it would have too many states.
base::Result<CharNfa> other_texts(const CharNfa& nfa);
// Whether any text matches.
bool takes_any(const CharNfa& nfa);

}  // namespace kvick::text
