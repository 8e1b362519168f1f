#pragma once
// Helpers for tests: checks which texts a schema accepts.

#include <gtest/gtest.h>
#include <string>
#include <string_view>

#include "text/grammar/test_texts.h"
#include "text/schema/json_grammar.h"

namespace kvick::text {

inline ByteSet all_bytes() { return ByteSet().set(); }

// A schema that is compiled once.
class SchemaTexts : public GrammarTexts {
 public:
  explicit SchemaTexts(std::string_view schema, const JsonLayout& layout = {})
      : GrammarTexts(json_grammar(Json::parse(schema), layout, all_bytes()), schema) {}
};

inline std::string schema_error(std::string_view schema) {
  const auto made = json_grammar(Json::parse(schema), {}, all_bytes());
  return made.ok() ? "no error" : made.error().message;
}

inline void expect_texts(std::string_view schema, const std::vector<std::string>& takes,
                         const std::vector<std::string>& refuses) {
  SchemaTexts texts(schema);
  for (const std::string& text : takes) EXPECT_TRUE(texts.takes(text)) << schema << ": " << text;
  for (const std::string& text : refuses) EXPECT_FALSE(texts.takes(text)) << schema << ": " << text;
}

}  // namespace kvick::text
