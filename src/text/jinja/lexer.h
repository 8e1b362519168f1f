#pragma once
// A template's source as tokens, with white space control already applied as Hugging Face sets
// Jinja2 up: trim_blocks, lstrip_blocks, one newline at the end of the source dropped.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::text::jinja {

enum class TokenType : uint8_t {
  kData,           // text to print as it is
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,   // text: its value, escapes resolved
  kInteger,  // text: digits without underscores, 0x, 0o, 0b prefixes kept
  kFloat,
  kOperator,  // text: one of + - * / // % ** ~ == != < <= > >= = . : | , ; ( ) [ ] { }
  kEnd,
};

struct Token {
  TokenType type;
  std::string text;
  int line;
};

// Throws a Failure with its line: an unclosed tag, comment, string or bracket, a character that
// begins no token.
std::vector<Token> lex(std::string_view source);

}  // namespace kvick::text::jinja
