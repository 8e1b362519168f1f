#pragma once
// Answers that a grammar takes.

#include <memory>

#include "text/grammar/byte_grammar.h"
#include "text/grammar/constraint.h"
#include "text/grammar/token_trie.h"

namespace kvick::text {

// A constraint from the answer's first token on. Its clones, which may be on different threads,
// share what they find out of the grammar. grammar: finished with the tokens' speakable(). tokens:
// of the tokenizer that the logits are of.
//
// Tokens are matched by their bytes, so a text is allowed in any tokenization, and tokens may split
// characters. Control tokens are never allowed. Bytes that are no token by themselves cannot be in
// an answer, so that there is always a token to go on with.
//
// most_work: readings of the text that a walk over the tokens may follow, summed over its bytes. A
// grammar that has many of them at once, such as [\s\S]*[a-m][\s\S]{400}, gets masks without some
// of the longer tokens, so that a mask takes a fraction of a second.
inline constexpr uint64_t kMostMaskWork = 16'000'000;
std::shared_ptr<const Constraint> grammar_constraint(std::shared_ptr<const TokenTrie> tokens,
                                                     Grammar grammar,
                                                     uint64_t most_work = kMostMaskWork);

}  // namespace kvick::text
