#pragma once
// Observes which blocks of tokens the prompts of a store may share.

#include <cstdint>
#include <span>

#include "kv/values/batch.h"

namespace kvick::kv {

// A block and all tokens before it. Ids are hashes of those tokens, so two stores that share blocks
// of the same length give the same prefix the same id.
struct SharedBlock {
  uint64_t id = 0, parent = 0;    // parent: id of the block before it; 0: this is the first block
  std::span<const Token> tokens;  // of the block; valid until the call returns
};

// Called on the store's thread; calls must not block or fail. Only blocks of owners without a salt
// are reported. A block is reported as stored once until it is removed.
class PrefixWatcher {
 public:
  virtual ~PrefixWatcher() = default;
  virtual void stored(const SharedBlock& block) noexcept = 0;
  virtual void removed(uint64_t id) noexcept = 0;
};

}  // namespace kvick::kv
