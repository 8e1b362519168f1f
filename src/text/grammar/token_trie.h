#pragma once
// The bytes of a tokenizer's tokens as a trie, to be walked together with an automaton.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/grammar/byte_grammar.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::text {

// A set of tokens; bits beyond the last token are zero.
using TokenBits = std::vector<uint64_t>;  // [(vocab + 63) / 64]

// Byte strings as a trie whose nodes are stored in preorder.
struct ByteTrie {
  struct Node {
    uint32_t behind;       // index of the next node that is not below this one
    uint32_t first_token;  // index into `tokens`; the node's tokens end where those of the next
                           // node begin
    uint16_t depth;        // number of bytes before this node's
    uint8_t byte;
  };
  std::vector<Node> nodes;  // with one more at the end
  std::vector<Token> tokens;
  uint32_t longest = 0;  // bytes
};

// Made once per tokenizer and read by any number of threads. The tokenizer need not outlive it.
class TokenTrie {
 public:
  // Errors: no token ends a generation.
  static base::Result<std::shared_ptr<const TokenTrie>> make(const Tokenizer& tokenizer);

  size_t vocab() const { return starts_.size() - 1; }
  std::string_view bytes_of(Token token) const {
    const auto i = static_cast<size_t>(token);
    return std::string_view(pool_).substr(starts_[i], starts_[i + 1] - starts_[i]);
  }
  bool ends_generation(Token token) const {
    return (ends_[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
  }
  const TokenBits& ends() const { return ends_; }
  // Bytes that are tokens by themselves.
  const ByteSet& speakable() const { return speakable_; }

  static constexpr uint32_t kMostPlain = 16;  // nearly all tokens are shorter
  // Tokens of at most kMostPlain whole characters that need no escape in a JSON string and consist
  // of speakable bytes.
  const TokenBits& plain() const { return plain_; }
  // all(): tokens that have bytes and do not end a generation. not_plain(): those of them outside
  // plain().
  const ByteTrie& all() const { return all_; }
  const ByteTrie& not_plain() const { return not_plain_; }

 private:
  explicit TokenTrie(const Tokenizer& tokenizer);
  bool is_plain(std::string_view bytes) const;

  std::string pool_;
  std::vector<size_t> starts_;  // [vocab + 1]
  TokenBits ends_, plain_;
  ByteSet speakable_;
  ByteTrie all_, not_plain_;
};

}  // namespace kvick::text
