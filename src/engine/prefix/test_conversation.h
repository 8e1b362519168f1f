#pragma once
// Prompts like those of conversations, and made-up models of a family to run them.

#include "make_model/families.h"

#include "engine/core/test_engine.h"

namespace kvick::engine::test {

inline std::unique_ptr<Engine> engine_of_family(const char* family, uint32_t context) {
  tools::Spec spec = *tools::made_family(family);
  spec.context = context;
  return engine_of(*tools::checked(spec));
}

// Returns a message of `count` tokens, including the `turn` token that begins it.
inline std::vector<Token> message_of(Token turn, uint32_t count, uint32_t seed) {
  std::vector<Token> tokens = {turn};
  while (tokens.size() < count)
    tokens.push_back(static_cast<Token>(10 + (tokens.size() * 37 + seed * 101) % 300));
  return tokens;
}

inline void append(std::vector<Token>& text, std::span<const Token> more) {
  text.insert(text.end(), more.begin(), more.end());
}

}  // namespace kvick::engine::test
