#pragma once
// Constrains answers to instances of a JSON Schema.

#include <memory>

#include "base/result.h"
#include "text/grammar/constraint.h"
#include "text/grammar/token_trie.h"
#include "text/schema/json_grammar.h"

namespace kvick::text {

// Like grammar_constraint(). The schema {"type": "object"} allows any JSON object. Errors: those of
// json_grammar().
base::Result<std::shared_ptr<const Constraint>> json_constraint(
    std::shared_ptr<const TokenTrie> tokens, const Json& schema, const JsonLayout& layout = {});

}  // namespace kvick::text
