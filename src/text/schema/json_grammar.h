#pragma once
// Compiles a JSON Schema to a grammar of the texts that are instances of it.
//
// Generation needs only one way to write an instance. So the grammar is narrower than the schema
// where that still allows instances of every shape:
// * Properties come in the order in which they are declared; undeclared ones follow. An object with
//   `properties` has undeclared ones only if `additionalProperties` says so. Without `type`,
//   keywords about one type stand for it.
// * Numbers have at most 18 digits before the point and 17 after it, exponents at most two.
// Integers
//   have neither point nor exponent.
// * Constants and strings that match a pattern have only the escapes that they need.
// * White space is as JsonLayout says. Nesting is at most about Grammar::kMostDepth levels.
// oneOf is read as anyOf. `format` is enforced for date, time, date-time, uuid, email, hostname and
// ipv4 (RFC 3339, no leap seconds). Other formats are ignored, as the standard requires, and so is
// a format beside a pattern if no text matches both.

#include "base/result.h"
#include "text/grammar/byte_grammar.h"
#include "text/schema/schema_expand.h"

namespace kvick::text {

struct JsonLayout {
  bool spaces = true;  // allows one space after ':' and ',' and within brackets
  // Most spaces after a line end. Line ends may stand where a space may, except after ':'. 0: none.
  uint32_t most_indent = 32;
  // Allows a space at the start (SentencePiece's first tokens begin with one).
  bool leading_space = true;
};

// Errors: one sentence that gives the place in the schema and the keyword: it is not supported,
// malformed or too large, or no JSON value can match.
base::Result<Grammar> json_grammar(const Json& schema, const JsonLayout& layout,
                                   const ByteSet& speakable);

}  // namespace kvick::text
