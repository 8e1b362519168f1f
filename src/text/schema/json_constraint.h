#pragma once
// Answers that are instances of a JSON Schema.

#include <memory>

#include "base/result.h"
#include "text/grammar/constraint.h"
#include "text/grammar/token_trie.h"
#include "text/schema/json_grammar.h"

namespace kvick::text {

// A constraint from the answer's first token on. Its clones, which may be on different threads,
// share what they find out of the schema. The schema {"type": "object"} is any JSON object. Errors:
// those of json_grammar(). tokens: of the tokenizer that the logits are of.
//
// Tokens are taken by their bytes, so a text is allowed however it is cut into tokens, and
// characters may be cut. A control token is never allowed. Bytes that are no token by themselves
// cannot be in an answer, so that there is always a token to go on with.
base::Result<std::shared_ptr<const Constraint>> json_constraint(
    std::shared_ptr<const TokenTrie> tokens, const Json& schema, const JsonLayout& layout = {});

}  // namespace kvick::text
