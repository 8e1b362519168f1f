#pragma once
// Where the end of a text has occurred before: chains of positions by their last two tokens, and by
// their last one, as LZ77 encoders keep them (RFC 1951, section 4), over the newest tokens that
// were added.

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/contract/kv.h"

namespace kvick::engine {

class MatchIndex {
 public:
  // capacity: tokens that are remembered, a power of two; memory grows up to it, 70 bytes
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
  // The longest first, the newest of equally long ones; at most kWalk, and matches of one token
  // only where there are none of more. What reaches the end of what was added has less than
  // kMostNext behind it; what has nothing is left out.
  void find(std::span<const kv::Token> text, std::vector<Match>& out) const;

  static constexpr uint32_t kMostLength = 16;  // longer ones say no more
  static constexpr uint32_t kMostNext = 32;
  static constexpr uint32_t kWalk = 24;  // places that are looked at

 private:
  // Places with the same last tokens, from the newest on.
  struct Chain {
    uint32_t tokens;                                // how many
    std::vector<uint64_t> earlier;                  // [ring] the place before, plus 1; 0: none
    std::unordered_map<uint64_t, uint64_t> newest;  // by the last tokens
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
