#include "text/grammar/token_trie.h"

#include <algorithm>

#include "text/unicode/utf8.h"

namespace kvick::text {
namespace {

void set_bit(TokenBits& bits, size_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }

size_t common_prefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first -
                             a.begin());
}

// tokens: sorted by their bytes, none of them empty.
ByteTrie make_trie(const TokenTrie& bytes, std::vector<Token> tokens) {
  ByteTrie trie;
  std::vector<uint32_t> open;  // the nodes from the root down to the last one
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back())
      trie.nodes[open.back()].behind = static_cast<uint32_t>(trie.nodes.size());
  };
  std::string_view before;
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    const std::string_view text = bytes.bytes_of(tokens[i]);
    close(common_prefix(before, text));
    for (size_t at = open.size(); at < text.size(); ++at) {
      open.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({.behind = 0,
                            .first_token = i,
                            .depth = static_cast<uint16_t>(at),
                            .byte = static_cast<uint8_t>(text[at])});
    }
    trie.longest = std::max(trie.longest, static_cast<uint32_t>(text.size()));
    before = text;
  }
  close(0);
  trie.nodes.push_back({.first_token = static_cast<uint32_t>(tokens.size())});
  trie.tokens = std::move(tokens);
  return trie;
}

}  // namespace

TokenTrie::TokenTrie(const Tokenizer& tokenizer) {
  const size_t vocab = tokenizer.vocabulary().pieces.size();
  ends_.resize((vocab + 63) / 64);
  plain_.resize(ends_.size());
  std::vector<Token> all, not_plain;
  for (size_t i = 0; i < vocab; ++i) {
    const auto token = static_cast<Token>(i);
    starts_.push_back(pool_.size());
    if (tokenizer.ends_generation(token)) {
      set_bit(ends_, i);
      continue;
    }
    const std::string bytes = tokenizer.piece(token, false);
    if (!bytes.empty()) all.push_back(token);
    if (bytes.size() == 1) speakable_[static_cast<uint8_t>(bytes[0])] = true;
    pool_ += bytes;
  }
  starts_.push_back(pool_.size());
  std::sort(all.begin(), all.end(), [&](Token a, Token b) { return bytes_of(a) < bytes_of(b); });
  for (const Token token : all) {
    if (is_plain(bytes_of(token)))
      set_bit(plain_, static_cast<size_t>(token));
    else
      not_plain.push_back(token);
  }
  all_ = make_trie(*this, std::move(all));
  not_plain_ = make_trie(*this, std::move(not_plain));
}

bool TokenTrie::is_plain(std::string_view bytes) const {
  const auto speakable = [&](char c) { return speakable_[static_cast<uint8_t>(c)]; };
  if (!std::all_of(bytes.begin(), bytes.end(), speakable)) return false;
  for (uint32_t count = 0; !bytes.empty(); ++count) {
    if (count == kMostPlain) return false;
    const Utf8 character = decode_utf8(bytes);
    if (!character.valid || character.code < 0x20 || character.code == '"' ||
        character.code == '\\')
      return false;
    bytes.remove_prefix(character.bytes);
  }
  return true;
}

base::Result<std::shared_ptr<const TokenTrie>> TokenTrie::make(const Tokenizer& tokenizer) {
  std::shared_ptr<const TokenTrie> trie(new TokenTrie(tokenizer));
  const auto& ends = trie->ends_;
  if (std::all_of(ends.begin(), ends.end(), [](uint64_t word) { return word == 0; }))
    return base::fail(
        "the model's vocabulary has no token that ends an answer, so answers cannot "
        "be held to a form");
  return trie;
}

}  // namespace kvick::text
