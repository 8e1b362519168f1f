#pragma once
// Forms of answers that are written as text: grammars in GBNF, regular expressions, choices.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/byte_grammar.h"

namespace kvick::text {

// Limits in addition to those of GrammarBuilder.
inline constexpr size_t kMostRegexBytes = 32 << 10;
inline constexpr size_t kMostFormChoices = 4096;

// For all functions below, speakable is as in GrammarBuilder::finish(). Errors: one sentence that
// says what is wrong with the text and where, what is too large, or that no text fits.

// The texts that the rule `root` accepts. Rules may nest Grammar::kMostDepth deep.
base::Result<Grammar> gbnf_grammar(std::string_view text, const ByteSet& speakable);

// The texts that the whole expression matches, in the syntax of Python's re with re.ASCII, without
// look-around, back-references, flags and word boundaries.
base::Result<Grammar> regex_grammar(std::string_view regex, const ByteSet& speakable);

// One of these texts, none of them empty.
base::Result<Grammar> choice_grammar(const std::vector<std::string>& choices,
                                     const ByteSet& speakable);

}  // namespace kvick::text
