#pragma once
// A block of the prefix cache beyond memory: the rows of up to kBlockTokens tokens, and whose they
// are. Its id says all that the rows depend on, so that a block is right for whoever looks it up,
// or it is not itself. The same bytes are a file of a folder and a value in a store.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/contract/kv.h"

namespace kvick::engine {

using Token = kv::Token;

// Tokens of a whole block. One of SmolLM2's rows in f16 has 2.9 MB: large enough to be read at the
// disk's speed, and what a prompt ends with beyond whole blocks is soon computed.
inline constexpr uint32_t kBlockTokens = 128;

// SHA-256 over everything that decides rows: the model, tokenizer, element types and instruction
// set (the fingerprint), the salt, and all tokens up to the block's last. Others may write to a
// shared store, and nobody can make tokens whose blocks are another prompt's.
struct BlockId {
  std::array<uint8_t, 32> bytes = {};
  auto operator<=>(const BlockId&) const = default;
  std::string hex() const;   // 64 digits
  std::string name() const;  // those and ".kv"
};

// The one in front of a prompt's first block. Nothing but hashing tells salts apart. adapter:
// AdapterUse::key.
BlockId prefix_root(std::string_view fingerprint, std::string_view salt,
                    std::string_view adapter = {});
// tokens: kBlockTokens, or fewer for the block that ends a prompt.
BlockId block_id(const BlockId& parent, std::span<const Token> tokens);
// Of the state behind tokens, and of the rows of the last of them: those since the last whole
// block, which is `before`.
BlockId state_id(const BlockId& before, std::span<const Token> rest);
// Of all whole blocks of some tokens, in order.
std::vector<BlockId> block_ids(const BlockId& prefix_root, std::span<const Token> tokens);

enum class Damage {
  kTorn,     // shorter or longer than it says, or not what its checksum says
  kForeign,  // sound, but not the one that was asked for, or of another version
};

// rows: as kv::Store::read_rows gives them.
std::string encode_block(const BlockId& id, std::span<const std::byte> rows);
// The rows in `bytes`, which were found under that id; row_bytes: how many there should be.
base::Result<std::span<const std::byte>, Damage> decode_block(const BlockId& id, size_t row_bytes,
                                                              std::span<const std::byte> bytes);

// Bytes of an encoded block with `row_bytes` bytes of rows.
size_t block_bytes(size_t row_bytes);

}  // namespace kvick::engine
