#include "text/schema/json_constraint.h"

#include "text/grammar/grammar_constraint.h"

namespace kvick::text {

base::Result<std::shared_ptr<const Constraint>> json_constraint(
    std::shared_ptr<const TokenTrie> tokens, const Json& schema, const JsonLayout& layout) {
  KVICK_TRY(Grammar grammar, json_grammar(schema, layout, tokens->speakable()));
  return grammar_constraint(std::move(tokens), std::move(grammar));
}

}  // namespace kvick::text
