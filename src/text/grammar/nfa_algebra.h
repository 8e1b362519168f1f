#pragma once
// Automata of texts that several regular expressions match.

#include "base/result.h"
#include "text/grammar/char_nfa.h"

namespace kvick::text {

// The texts that both take. Error: it has too many states.
base::Result<CharNfa> common_texts(const CharNfa& a, const CharNfa& b);
// The texts that it does not take. Error: it has too many states.
base::Result<CharNfa> other_texts(const CharNfa& nfa);
// Whether there is a text that it takes.
bool takes_any(const CharNfa& nfa);

}  // namespace kvick::text
