#pragma once
// Made-up blocks of prompts and their rows, for tests of what keeps them.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "engine/prefix/prefix_block.h"
#include "engine/prefix/prefix_tier.h"

namespace kvick::engine::test {

// Returns the tokens first, first + 1, ...: whole blocks, and some more that fill none.
inline std::vector<Token> made_tokens(size_t blocks, Token first = 0) {
  std::vector<Token> tokens(blocks * kBlockTokens + 5);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

inline std::vector<BlockId> made_ids(size_t blocks, Token first = 0) {
  return block_ids(prefix_root("model", ""), made_tokens(blocks, first));
}

inline std::vector<BlockKey> keys_of(const std::vector<BlockId>& ids, size_t row_bytes) {
  std::vector<BlockKey> keys;
  for (const BlockId& id : ids) keys.push_back({id, row_bytes});
  return keys;
}

inline std::vector<std::byte> made_rows(size_t seed, size_t bytes) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::vector<std::byte> rows(bytes);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
  return rows;
}

}  // namespace kvick::engine::test
