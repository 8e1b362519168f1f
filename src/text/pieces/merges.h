#pragma once
// The merge loop that byte-pair encoding and SentencePiece's BPE share: again and again the
// adjacent pair of symbols with the lowest rank, the leftmost of equals, becomes one symbol.

#include <cstdint>
#include <span>
#include <vector>

#include "text/pieces/piece_map.h"

namespace kvick::text {

class MergeTable {
 public:
  explicit MergeTable(size_t most_pairs);

  // left, right, result: at least 0. A pair that is there already stays as it is. Pairs of one rank
  // must be such that it does not matter which of two at the same place goes first; ranks of their
  // own and ranks that stand for the result's score both are.
  void add(Token left, Token right, uint32_t rank, Token result);

  // Merges in place and returns how many symbols are left, at the front. A negative symbol merges
  // with nothing. O(n log n) for n symbols.
  size_t merge(std::span<Token> symbols) const;

 private:
  struct Pair {
    uint64_t key = kFree;
    uint32_t rank = 0;
    Token result = 0;
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  static uint64_t key_of(Token left, Token right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const;
  const Pair* find(Token left, Token right) const;  // null if they do not merge
  size_t merge_short(std::span<Token> symbols) const;
  size_t merge_long(std::span<Token> symbols) const;

  std::vector<Pair> slots_;  // at most half full
};

}  // namespace kvick::text
