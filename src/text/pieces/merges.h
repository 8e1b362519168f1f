#pragma once
// The merge loop of byte-pair encoding and of SentencePiece's BPE: it repeatedly merges the
// adjacent pair of symbols with the lowest rank into one symbol; of equal ranks, the leftmost pair.

#include <cstdint>
#include <span>
#include <vector>

#include "text/pieces/piece_map.h"

namespace kvick::text {

class MergeTable {
 public:
  explicit MergeTable(size_t most_pairs);

  // Adds a pair, unless it is there already. left, right, result: at least 0. If two pairs of equal
  // rank can compete for the same place, their order must not matter. This holds for unique ranks
  // and for ranks that stand for the result's score.
  void add(Token left, Token right, uint32_t rank, Token result);

  // Merges in place and returns the number of symbols left; they are at the front. A negative
  // symbol never merges. O(n log n) for n symbols.
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
  const Pair* find(Token left, Token right) const;  // nullptr if they do not merge
  size_t merge_short(std::span<Token> symbols) const;
  size_t merge_long(std::span<Token> symbols) const;

  std::vector<Pair> slots_;  // at most half full
};

}  // namespace kvick::text
