#pragma once
// Texts whose rows the store may still have, and which parts of a prompt occur in one of them at
// another position. Only hints: the store decides whether the rows are there.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/values/batch.h"

namespace kvick::engine {

using kv::Token;

// Tokens of a prompt that stand in an earlier text.
struct KnownRun {
  uint32_t at = 0;    // their place in the prompt
  uint32_t from = 0;  // and in the text
  uint32_t count = 0;
  std::shared_ptr<const std::vector<Token>> text;
};

class KnownTexts {
 public:
  // least: shortest run in tokens, at least 2; most: tokens of all texts; the oldest are dropped.
  KnownTexts(uint32_t least, size_t most) : least_(least), most_(most) {}

  // salt: whose text it is; nobody else finds it. Texts shorter than a run are not kept.
  void add(uint64_t salt, std::span<const Token> text);
  // The runs in tokens [first, end) of a prompt, in order and disjoint. Takes time linear in the
  // prompt, except for repetitive texts.
  std::vector<KnownRun> runs(uint64_t salt, std::span<const Token> prompt, uint32_t first,
                             uint32_t end) const;

 private:
  using Text = std::shared_ptr<const std::vector<Token>>;
  struct Place {
    Text text;
    uint64_t salt = 0;
    uint32_t at = 0;
  };
  struct Kept {
    Text text;
    uint64_t salt = 0;
  };
  // Any run has a whole block of half its length, wherever it begins.
  uint32_t block() const { return least_ / 2; }
  void drop_oldest();

  uint32_t least_;
  size_t most_, tokens_ = 0;
  std::deque<Kept> texts_;                      // the oldest first
  std::unordered_map<uint64_t, Place> places_;  // by the hash of a block: the newest text's
};

}  // namespace kvick::engine
