#pragma once
// Finds where the end of a text has occurred before. Keeps chains of positions with the same last
// two tokens, and with the same last token, as LZ77 encoders do (RFC 1951, section 4), over the
// newest tokens that were added.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

class MatchIndex {
 public:
  // capacity: tokens that are remembered, a power of two. Memory grows up to it, by 70 bytes per
  // token.
  explicit MatchIndex(uint32_t capacity) : capacity_(capacity) {}

  // Adds texts one after another: begin() begins a text, add() adds its next token.
  void begin();
  void add(kv::Token token);

  // An earlier occurrence of the text's end.
  struct Match {
    std::span<const kv::Token> next;  // tokens after it, at most kMostNext; until the next add()
    uint32_t length = 0;              // tokens before `next` that equal the text's last ones
  };
  // Sets `out` to at most kWalk matches, the longest first, of equally long ones the newest first.
  // Matches of one token are returned only if there are no longer ones. A match near the end of the
  // added tokens has fewer than kMostNext tokens after it; one without any is left out.
  void find(std::span<const kv::Token> text, std::vector<Match>& out) const;

  static constexpr uint32_t kMostLength = 16;  // longer matches predict no better
  static constexpr uint32_t kMostNext = 32;
  static constexpr uint32_t kWalk = 24;  // places that are looked at per chain

 private:
  // Chains of places with the same last tokens, from the newest to the oldest.
  struct Chain {
    uint32_t tokens;                // tokens that the places have in common
    std::vector<uint64_t> earlier;  // [ring] the chain's previous place, plus 1; 0: none
    std::unordered_map<uint64_t, uint64_t> newest;  // newest place, by the last tokens
    void add(uint64_t key, uint64_t place, uint64_t at);
    void forget(uint64_t key, uint64_t place);
  };
  struct Place {
    uint64_t at;
    uint32_t length;
  };

  uint64_t first() const { return count_ > capacity_ ? count_ - capacity_ : 0; }
  kv::Token at(uint64_t place) const { return tokens_[place & (capacity_ - 1)]; }
  uint64_t pair_at(uint64_t place) const;
  uint32_t length_at(std::span<const kv::Token> text, uint64_t place) const;
  void walk(const Chain& chain, uint64_t key, std::span<const kv::Token> text,
            std::vector<Place>& places) const;

  uint64_t capacity_;
  uint64_t count_ = 0;             // tokens ever added; token i is place i
  std::vector<kv::Token> tokens_;  // [min(count, capacity)], a ring
  Chain pairs_ = {.tokens = 2, .earlier = {}, .newest = {}};
  Chain singles_ = {.tokens = 1, .earlier = {}, .newest = {}};
};

}  // namespace kvick::engine
