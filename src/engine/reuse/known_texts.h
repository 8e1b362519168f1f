#pragma once
// Remembers texts whose rows the store may still have, and finds the parts of a prompt that occur
// in them at another position. These are hints: the store decides whether the rows are there.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "kv/values/batch.h"

namespace kvick::engine {

using kv::Token;

// A run of a prompt's tokens that occurs in an earlier text.
struct KnownRun {
  uint32_t at = 0;     // position of its first token in the prompt
  uint32_t from = 0;   // position of its first token in the text
  uint32_t count = 0;  // tokens
  std::shared_ptr<const std::vector<Token>> text;
};

class KnownTexts {
 public:
  // least: tokens of the shortest run, at least 2. most: tokens of all texts together; beyond it
  // the oldest texts are dropped.
  KnownTexts(uint32_t least, size_t most) : least_(least), most_(most) {}

  // salt: the owner of the text; only prompts with this salt find it. Texts of less than `least`
  // tokens, or more than `most`, are not kept.
  void add(uint64_t salt, std::span<const Token> text);
  // Returns the runs in tokens [first, end) of a prompt, in order and disjoint. Takes time linear
  // in the prompt, except for repetitive texts.
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
  // Half a run: wherever a run begins in a text, it contains a whole block of this many tokens.
  uint32_t block() const { return least_ / 2; }
  void drop_oldest();

  uint32_t least_;
  size_t most_, tokens_ = 0;
  std::deque<Kept> texts_;                      // the oldest first
  std::unordered_map<uint64_t, Place> places_;  // by the hash of a block: the newest text's
};

}  // namespace kvick::engine
