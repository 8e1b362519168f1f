#include "text/schema/json_grammar.h"

#include "text/schema/schema_compiler.h"

namespace kvick::text {

base::Result<Grammar> json_grammar(const Json& schema, const JsonLayout& layout,
                                   const ByteSet& speakable) {
  KVICK_TRY_VOID(SchemaExpander::check_size(schema));
  KVICK_TRY(GrammarBuilder builder, SchemaCompiler(schema, layout).compile(schema));
  auto grammar = std::move(builder).finish(speakable);
  if (!grammar.ok()) return base::fail("the schema cannot be used: {}", grammar.error().message);
  return grammar;
}

}  // namespace kvick::text
