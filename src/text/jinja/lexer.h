#pragma once
// Splits a template's source into tokens. White space control is applied as Hugging Face configures
// Jinja2: trim_blocks, lstrip_blocks, and one newline at the end of the source is dropped.

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
  kInteger,  // text: digits without underscores; the prefixes 0x, 0o, 0b are kept
  kFloat,
  kOperator,  // text: one of + - * / // % ** ~ == != < <= > >= = . : | , ; ( ) [ ] { }
  kEnd,
};

struct Token {
  TokenType type;
  std::string text;
  int line;
};

// Throws a Failure with its line for an unclosed tag, comment, string or bracket, and for a
// character that begins no token.
std::vector<Token> lex(std::string_view source);

}  // namespace kvick::text::jinja
