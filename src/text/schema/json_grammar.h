#pragma once
// The texts that are instances of a JSON Schema, as a grammar.
//
// Generation needs one way to write an instance, not all of them, so the grammar is narrower than
// the schema where that still allows instances of every shape:
// * Properties come in the order in which they are declared, others behind them. An object with
//   `properties` has others only where `additionalProperties` says so. Without `type`, keywords
//   that are about one type stand for it.
// * Numbers have at most 18 digits in front of the point and 17 behind it, exponents two; integers
//   neither point nor exponent.
// * Constants and what a pattern matches are written with the escapes that they need and no others.
// * White space is as JsonLayout says. Nesting is at most about Grammar::kMostDepth.
// oneOf is read as anyOf. `format` counts where it is date, time, date-time, uuid, email, hostname
// or ipv4 (RFC 3339, no leap seconds), and says nothing otherwise, as the standard has it; nor
// beside a pattern that no text of the format matches.

#include "base/result.h"
#include "text/grammar/byte_grammar.h"
#include "text/schema/schema_expand.h"

namespace kvick::text {

struct JsonLayout {
  bool spaces = true;         // one may stand behind ':' and ',' and within brackets
  uint32_t most_indent = 32;  // spaces behind a line end, which may stand where a space may but for
                              // behind ':'; 0: no line ends
  bool leading_space = true;  // one may come first (SentencePiece's first tokens begin with one)
};

// Errors: one sentence with the place in the schema and the keyword: what is not supported,
// malformed or too large, or that no JSON can be an instance.
base::Result<Grammar> json_grammar(const Json& schema, const JsonLayout& layout,
                                   const ByteSet& speakable);

}  // namespace kvick::text
