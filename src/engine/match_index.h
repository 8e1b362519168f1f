#pragma once
// Where the end of a text has occurred before: chains of positions by the hash of their last
// tokens, as LZ77 encoders keep them (RFC 1951, section 4), over the newest tokens that were added.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/kv.h"

namespace kvick::engine {

class MatchIndex {
 public:
  // capacity: tokens that are remembered, a power of two; memory grows up to it, 60 bytes
  // each.
  explicit MatchIndex(uint32_t capacity) : capacity_(capacity) {}

  // Texts behind one another; begin() separates them.
  void begin();
  void add(kv::Token token);

  // An earlier place: what comes behind it.
  struct Match {
    std::span<const kv::Token> next;  // at most kMostNext tokens, valid until the next add
    uint32_t length = 0;              // tokens before it that are the text's last ones too
  };
  // The longest first, the newest of equally long ones; at most `most`, of at least kLeast tokens.
  // What reaches the end of what was added has less than kMostNext behind it, or nothing.
  void find(std::span<const kv::Token> text, size_t most, std::vector<Match>& out) const;

  static constexpr uint32_t kLeast = 2;        // shorter matches are chance
  static constexpr uint32_t kMostLength = 16;  // longer ones say no more
  static constexpr uint32_t kMostNext = 32;

 private:
  static constexpr uint32_t kWalk = 24;  // places that are looked at

  uint64_t first() const { return count_ > capacity_ ? count_ - capacity_ : 0; }
  kv::Token at(uint64_t place) const { return tokens_[place & (capacity_ - 1)]; }
  uint64_t key_at(uint64_t place) const;
  uint32_t length_at(std::span<const kv::Token> text, uint64_t place) const;

  uint64_t capacity_;
  uint64_t count_ = 0;             // tokens ever added; token i is place i
  std::vector<kv::Token> tokens_;  // [min(count, capacity)], a ring
  std::vector<uint64_t> earlier_;  // the place before with the same last tokens, plus 1; 0: none
  std::unordered_map<uint64_t, uint64_t> newest_;  // by the last tokens
};

}  // namespace kvick::engine
