#pragma once
// Constrains answers to a form that is written as text: a GBNF grammar, a regular expression, or a
// list of choices.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/byte_grammar.h"

namespace kvick::text {

// Limits in addition to those of GrammarBuilder.
inline constexpr size_t kMostRegexBytes = 32 << 10;
inline constexpr size_t kMostFormChoices = 4096;

// In all functions below, `speakable` is as in GrammarBuilder::finish(). Errors: one sentence that
// says what is wrong with the text and where, what is too large, or that no text matches.

// Returns the grammar of the texts that the rule `root` accepts. Rules may nest Grammar::kMostDepth
// deep.
base::Result<Grammar> gbnf_grammar(std::string_view text, const ByteSet& speakable);

// Returns the grammar of the texts that the regular expression matches as a whole. The syntax is
// that of Python's re with re.ASCII, without look-around, back-references, flags and word
// boundaries.
base::Result<Grammar> regex_grammar(std::string_view regex, const ByteSet& speakable);

// Returns the grammar that accepts exactly the given texts, none of which may be empty.
base::Result<Grammar> choice_grammar(const std::vector<std::string>& choices,
                                     const ByteSet& speakable);

}  // namespace kvick::text
