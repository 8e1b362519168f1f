#pragma once
// Helpers for tests: checks which texts a form accepts.

#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <vector>

#include "text/forms/forms.h"
#include "text/grammar/test_texts.h"

namespace kvick::text {

inline base::Result<Grammar> gbnf(std::string_view text) {
  return gbnf_grammar(text, ByteSet().set());
}
inline base::Result<Grammar> regex(std::string_view text) {
  return regex_grammar(text, ByteSet().set());
}
inline std::string error_of(const base::Result<Grammar>& made) {
  return made.ok() ? "no error" : made.error().message;
}

inline void expect_texts(GrammarTexts texts, const std::vector<std::string>& takes,
                         const std::vector<std::string>& refuses) {
  for (const std::string& text : takes) EXPECT_TRUE(texts.takes(text)) << text;
  for (const std::string& text : refuses) EXPECT_FALSE(texts.takes(text)) << text;
}

}  // namespace kvick::text
