#pragma once
// Observer of the token blocks that the prompts of a store may share.

#include <cstdint>
#include <span>

#include "kv/values/batch.h"

namespace kvick::kv {

// A block and all tokens before it. Ids are hashes of these tokens: two stores that share blocks of
// the same length give the same beginning the same id.
struct SharedBlock {
  uint64_t id = 0, parent = 0;    // parent: of the block before it; 0: it is the first
  std::span<const Token> tokens;  // of the block; read before the call returns
};

// Called on the store's thread; calls must not block or fail. Reports only blocks of owners without
// a salt; each is stored once until it is removed.
class PrefixWatcher {
 public:
  virtual ~PrefixWatcher() = default;
  virtual void stored(const SharedBlock& block) noexcept = 0;
  virtual void removed(uint64_t id) noexcept = 0;
};

}  // namespace kvick::kv
