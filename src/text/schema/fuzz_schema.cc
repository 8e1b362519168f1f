// Any bytes as a schema and, behind a zero byte, as choices of an answer under it: it is compiled
// or refused; every mask leaves a token, and an answer that ends is JSON.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "text/schema/json_constraint.h"
#include "text/unicode/utf8.h"

namespace {

using kvick::text::Json;
using kvick::text::TokenTrie;

constexpr int kEnd = 256;

// All bytes and an end.
std::shared_ptr<const TokenTrie> byte_tokens() {
  kvick::text::Vocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
    std::string letter;
    kvick::text::append_utf8(itself ? byte : next++, letter);
    v.pieces.push_back(letter);
  }
  v.pieces.emplace_back("</s>");
  v.kinds.resize(v.pieces.size());
  v.kinds.back() = kvick::text::TokenKind::kControl;
  v.eos = kEnd;
  const auto tokenizer = std::move(kvick::text::Tokenizer::make(std::move(v))).value();
  return std::move(TokenTrie::make(*tokenizer)).value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::shared_ptr<const TokenTrie> kTokens = byte_tokens();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  const Json schema = Json::parse(input.substr(0, cut), nullptr, false);
  if (schema.is_discarded()) return 0;
  const auto made = kvick::text::json_constraint(kTokens, schema);
  if (!made.ok()) return 0;
  const auto constraint = (*made)->clone();
  std::string text;
  std::string_view choices = input.substr(std::min(cut + 1, input.size()));
  for (int i = 0; i < 64; ++i) {
    float logits[kEnd + 1] = {};
    constraint->mask(logits);
    size_t left = 0;
    for (const float logit : logits) left += std::isinf(logit) ? 0 : 1;
    if (left == 0) std::abort();
    size_t choice = choices.empty() ? left - 1 : static_cast<uint8_t>(choices[0]) % left;
    if (!choices.empty()) choices.remove_prefix(1);
    int token = 0;
    for (; std::isinf(logits[token]) || choice-- > 0; ++token) continue;
    constraint->accept(token);
    if (token == kEnd) {
      if (Json::parse(text, nullptr, false).is_discarded()) std::abort();
      return 0;
    }
    text += static_cast<char>(token);
  }
  return 0;
}
