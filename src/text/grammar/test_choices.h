#pragma once
// For fuzzers: draws answers under a constraint, by choices from the fuzzer's input.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/grammar/constraint.h"
#include "text/grammar/token_trie.h"
#include "text/unicode/utf8.h"

namespace kvick::text {

inline constexpr int kByteTokensEnd = 256;

// Makes a tokenizer of the 256 bytes, in order, and an end token.
inline std::shared_ptr<const TokenTrie> byte_tokens() {
  Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string letter;
    append_utf8(itself ? byte : next++, letter);
    v.pieces.push_back(letter);
  }
  v.pieces.emplace_back("</s>");
  v.kinds.resize(v.pieces.size());
  v.kinds.back() = TokenKind::kControl;
  v.eos = kByteTokensEnd;
  const auto tokenizer = std::move(Tokenizer::make(std::move(v))).value();
  return std::move(TokenTrie::make(*tokenizer)).value();
}

// Draws an answer. Each choice, modulo the number of allowed tokens, selects one of them; after the
// last choice, the last allowed token is taken. Aborts if no token is allowed. Returns nullopt if
// the answer has not ended after 64 tokens.
inline std::optional<std::string> chosen_answer(Constraint& constraint, std::string_view choices) {
  std::string text;
  for (int i = 0; i < 64; ++i) {
    float logits[kByteTokensEnd + 1] = {};
    constraint.mask(logits);
    size_t left = 0;
    for (const float logit : logits) left += std::isinf(logit) ? 0 : 1;
    if (left == 0) std::abort();
    size_t choice = choices.empty() ? left - 1 : static_cast<uint8_t>(choices[0]) % left;
    if (!choices.empty()) choices.remove_prefix(1);
    int token = 0;
    for (; std::isinf(logits[token]) || choice-- > 0; ++token) continue;
    constraint.accept(token);
    if (token == kByteTokensEnd) return text;
    text += static_cast<char>(token);
  }
  return std::nullopt;
}

}  // namespace kvick::text
