#pragma once
// Constrains answers to a grammar.

#include <memory>

#include "text/grammar/byte_grammar.h"
#include "text/grammar/constraint.h"
#include "text/grammar/token_trie.h"

namespace kvick::text {

// Returns a constraint at the start of an answer. Its clones may be on different threads; they
// share the automaton and the masks. grammar: from finish() with the tokens' speakable(). tokens:
// of the tokenizer that the logits belong to.
//
// Tokens are matched by their bytes, so a text is allowed in any tokenization, and tokens may split
// characters. Control tokens are never allowed. Bytes that are not tokens by themselves cannot
// occur in an answer, so that some token can always continue it.
//
// most_work: limit on the readings that one walk over the tokens follows, summed over the bytes. A
// grammar with many readings at once, such as [\s\S]*[a-m][\s\S]{400}, gets masks without some of
// the longer tokens. This way a mask takes a fraction of a second.
inline constexpr uint64_t kMostMaskWork = 16'000'000;
std::shared_ptr<const Constraint> grammar_constraint(std::shared_ptr<const TokenTrie> tokens,
                                                     Grammar grammar,
                                                     uint64_t most_work = kMostMaskWork);

}  // namespace kvick::text
